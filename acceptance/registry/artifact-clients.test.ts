import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { pack } from 'tar-stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnPlatform, startOwnPlatform } from '../main-job/own-platform.ts'
import { type ImageLayout, writeImageLayout } from './image-layout.ts'
import { has, openRegistrySession, type RegistrySession, run } from './registry-session.ts'

/**
 * Clients that no distribution packages, when they are on the PATH or `node acceptance/registry/install.ts` has built
 * them. Helm takes minutes: `go install helm.sh/helm/v3/cmd/helm@v3.17.3`.
 */
const email = 'admin@example.com'
const password = 'a password for the test'
let folder: string
let platform: OwnPlatform
let session: RegistrySession
let image: ImageLayout
/** Keeps the clients' logins out of the user's home. */
let home: Record<string, string>

describe.skipIf(!has('oras') && !has('crane') && !has('helm'))('clients of artifacts', () => {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'platform-mlops-artifacts-'))
    platform = await startOwnPlatform(folder, email, password)
    session = await openRegistrySession(platform.url, email, password)
    image = await writeImageLayout(join(folder, 'image'), [2_000_000, 100_000])
    home = { HOME: folder, DOCKER_CONFIG: join(folder, 'docker') }
    await mkdir(home.DOCKER_CONFIG!)
  })
  afterAll(async () => {
    await platform?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const at = (name: string) => `${session.host}/default/${name}`
  const sha256 = (bytes: Uint8Array) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`

  describe.skipIf(!has('oras'))('oras', () => {
    const oras = (...args: string[]) => run('oras', args, home)
    const json = async (...args: string[]) => JSON.parse(await oras(...args, '--format', 'json'))

    test('signs in, pushes files, attaches, discovers, copies, pulls and deletes', async () => {
      await oras('login', '--plain-http', '-u', 'me', '-p', session.token, session.host)
      const work = join(folder, 'oras')
      await mkdir(work)
      await writeFile(join(work, 'weights.bin'), Buffer.alloc(3_000_000, 7))
      await writeFile(join(work, 'card.md'), '# a model card')
      await writeFile(join(work, 'sbom.json'), '{}')
      const here = (...args: string[]) => run('sh', ['-c', 'cd "$0" && exec oras "$@"', work, ...args], home)
      const type = ['--artifact-type', 'application/vnd.example.model']
      await here('push', '--plain-http', ...type, at('oras/model:v1'), 'weights.bin', 'card.md:text/markdown')
      await here('attach', '--plain-http', '--artifact-type', 'application/spdx+json', at('oras/model:v1'), 'sbom.json')
      const found = await json('discover', '--plain-http', at('oras/model:v1'))
      const referrers = found.referrers ?? found.manifests
      expect(referrers.map((item: { artifactType: string }) => item.artifactType)).toEqual(['application/spdx+json'])
      await oras('cp', '--recursive', '--from-plain-http', '--to-plain-http', at('oras/model:v1'), at('oras/copy:v2'))
      expect((await oras('repo', 'tags', '--plain-http', at('oras/copy'))).trim().split('\n')).toContain('v2')
      expect(await oras('repo', 'ls', '--plain-http', session.host)).toContain('default/oras/copy')
      await oras('pull', '--plain-http', '-o', join(folder, 'pulled'), at('oras/copy:v2'))
      expect(await readFile(join(folder, 'pulled/card.md'), 'utf8')).toBe('# a model card')
      expect(sha256(await readFile(join(folder, 'pulled/weights.bin')))).toBe(sha256(Buffer.alloc(3_000_000, 7)))
      await oras('manifest', 'delete', '--plain-http', '--force', at('oras/copy:v2'))
      await expect(oras('manifest', 'fetch', '--plain-http', at('oras/copy:v2'))).rejects.toThrow(/not found/)
    }, 60_000)

    test('keeps a Helm chart as Helm pushes it', async () => {
      await oras('login', '--plain-http', '-u', 'me', '-p', session.token, session.host)
      const chart = 'apiVersion: v2\nname: probe\nversion: 0.1.0\n'
      const archive = pack()
      archive.entry({ name: 'probe/Chart.yaml' }, chart)
      archive.finalize()
      const content = gzipSync(await buffer(archive))
      const work = join(folder, 'chart')
      await mkdir(work)
      await writeFile(join(work, 'config.json'), JSON.stringify({ apiVersion: 'v2', name: 'probe', version: '0.1.0' }))
      await writeFile(join(work, 'probe-0.1.0.tgz'), content)
      const here = (...args: string[]) => run('sh', ['-c', 'cd "$0" && exec oras "$@"', work, ...args], home)
      await here(
        ...['push', '--plain-http', '--config', 'config.json:application/vnd.cncf.helm.config.v1+json'],
        ...[at('charts/probe:0.1.0'), 'probe-0.1.0.tgz:application/vnd.cncf.helm.chart.content.v1.tar+gzip'],
      )
      const manifest = JSON.parse(await oras('manifest', 'fetch', '--plain-http', at('charts/probe:0.1.0')))
      expect(manifest.config.mediaType).toBe('application/vnd.cncf.helm.config.v1+json')
      expect(manifest.layers[0]).toMatchObject({ digest: sha256(content), size: content.length })
      await oras('pull', '--plain-http', '-o', join(folder, 'pulled-chart'), at('charts/probe:0.1.0'))
      expect((await readFile(join(folder, 'pulled-chart/probe-0.1.0.tgz'))).equals(content)).toBe(true)
    }, 60_000)
  })

  test.skipIf(!has('helm'))(
    'helm signs in, packages, pushes, shows and pulls a chart',
    async () => {
      const helm = (...args: string[]) => run('helm', args, home)
      await helm('registry', 'login', '--insecure', '-u', 'me', '-p', session.token, session.host)
      const chart = join(folder, 'helm/served')
      await mkdir(chart, { recursive: true })
      await writeFile(join(chart, 'Chart.yaml'), 'apiVersion: v2\nname: served\nversion: 1.2.3\n')
      await helm('package', chart, '-d', folder)
      const registry = `oci://${at('helm')}`
      await helm('push', '--plain-http', join(folder, 'served-1.2.3.tgz'), registry)
      expect(await helm('show', 'chart', '--plain-http', `${registry}/served`, '--version', '1.2.3')).toContain('1.2.3')
      await helm('pull', '--plain-http', `${registry}/served`, '--version', '1.2.3', '-d', chart)
      const [sent, got] = await Promise.all([folder, chart].map((place) => readFile(join(place, 'served-1.2.3.tgz'))))
      expect(got!.equals(sent!)).toBe(true)
    },
    60_000,
  )

  describe.skipIf(!has('crane'))('crane', () => {
    const crane = (...args: string[]) => run('crane', [...args, '--insecure'], home)

    test('signs in, pushes, validates, copies, mutates, pulls and deletes', async () => {
      await crane('auth', 'login', session.host, '-u', 'me', '-p', session.token)
      // It pushes the only image of a layout as it is.
      await crane('push', image.folder, at('crane/app:v1'))
      const digest = (await crane('digest', at('crane/app:v1'))).trim()
      const pushed = await crane('manifest', at('crane/app:v1'))
      expect(sha256(Buffer.from(pushed))).toBe(digest)
      expect(pushed).toContain(image.layers[0]!.digest)
      await crane('validate', '--remote', at('crane/app:v1'))
      await crane('copy', at('crane/app:v1'), at('crane/other:v2'))
      expect((await crane('digest', at('crane/other:v2'))).trim()).toBe(digest)
      await crane('tag', at('crane/other:v2'), 'latest')
      await crane('mutate', at('crane/other:v2'), '--label', 'a=b', '-t', at('crane/other:labelled'))
      expect((await crane('ls', at('crane/other'))).trim().split('\n').sort()).toEqual(['labelled', 'latest', 'v2'])
      expect(await crane('catalog', session.host)).toContain('default/crane/other')
      await crane('pull', at('crane/other:labelled'), join(folder, 'crane-layout'), '--format', 'oci')
      expect(await readdir(join(folder, 'crane-layout'))).toContain('index.json')
      await crane('delete', `${at('crane/other')}@${digest}`)
      expect((await crane('ls', at('crane/other'))).trim()).toBe('labelled')
    }, 60_000)
  })
})
