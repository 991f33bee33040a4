import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnPlatform, startOwnPlatform } from '../main-job/own-platform.ts'
import { findSuite } from './oci-clients.ts'
import { openRegistrySession, type RegistrySession, run } from './registry-session.ts'

/**
 * The suites of the OCI Distribution Specification, where they have been built: `node acceptance/registry/install.ts`, with
 * Go 1.24 or newer and a way to their source, or by hand in a checkout of opencontainers/distribution-spec:
 *
 *     v1.1.1: cd conformance && go test -c -o suite && export OCI_CONFORMANCE_1_1_1=$PWD/suite
 *     main:   cd conformance && go build -o suite . && export OCI_CONFORMANCE_MAIN=$PWD/suite
 */
const released = findSuite('conformance-1.1.1', 'OCI_CONFORMANCE_1_1_1')
const latest = findSuite('conformance-main', 'OCI_CONFORMANCE_MAIN')

const email = 'admin@example.com'
const password = 'a password for the test'

describe.skipIf(!released && !latest)('OCI Distribution conformance', () => {
  let folder: string
  let platform: OwnPlatform
  let session: RegistrySession
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'platform-mlops-conformance-'))
    platform = await startOwnPlatform(folder, email, password)
    session = await openRegistrySession(platform.url, email, password)
  })
  afterAll(async () => {
    await platform?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  test.skipIf(!released)('1.1.1: pull, push, content discovery, content management', async () => {
    const output = await run(released!, [], {
      OCI_ROOT_URL: platform.url,
      OCI_NAMESPACE: 'default/conf/a',
      OCI_CROSSMOUNT_NAMESPACE: 'default/conf/b',
      OCI_USERNAME: 'me',
      OCI_PASSWORD: session.token,
      ...Object.fromEntries(
        ['PULL', 'PUSH', 'CONTENT_DISCOVERY', 'CONTENT_MANAGEMENT'].map((kind) => [`OCI_TEST_${kind}`, '1']),
      ),
      OCI_AUTOMATIC_CROSSMOUNT: '1',
      OCI_HIDE_SKIPPED_WORKFLOWS: '0',
      OCI_REPORT_DIR: folder,
    })
    // A suite with a failure exits with 1, which throws.
    expect(output).toMatch(/Ran [1-9]\d* of \d+ Specs/)
  })

  // Sparse manifests stay off: a configuration or layer that is missing is an error here (contract B9.7).
  test.skipIf(!latest)('main: all but sparse manifests', async () => {
    const results = join(folder, 'results')
    await mkdir(results)
    await run(latest!, [], {
      OCI_REGISTRY: session.host,
      OCI_TLS: 'disabled',
      OCI_REPO1: 'default/main/a',
      OCI_REPO2: 'default/main/b',
      OCI_USERNAME: 'me',
      OCI_PASSWORD: session.token,
      OCI_VERSION: '1.1',
      OCI_RESULTS_DIR: results,
      OCI_API_BLOBS_UPLOAD_CANCEL: 'true',
      OCI_API_BLOBS_DIGEST_HEADER: 'true',
      OCI_API_MANIFESTS_DIGEST_HEADER: 'true',
      OCI_API_MANIFESTS_TAG_PARAM: 'true',
    })
    const report = await readFile(join(results, 'junit.xml'), 'utf8')
    expect(report).toMatch(/failures="0" errors="0"/)
  })
})
