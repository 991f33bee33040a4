import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnPlatform, startOwnPlatform } from '../main-job/own-platform.ts'
import { importEnd, sendArchive } from './archive-import.ts'
import { blobPath, type ImageLayout, writeImageLayout } from './image-layout.ts'
import { has, openRegistrySession, type RegistrySession, run } from './registry-session.ts'

const email = 'admin@example.com'
const password = 'a password for the test'
let folder: string
let platform: OwnPlatform
let session: RegistrySession
let image: ImageLayout

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'platform-mlops-registry-'))
  platform = await startOwnPlatform(folder, email, password)
  session = await openRegistrySession(platform.url, email, password)
  image = await writeImageLayout(join(folder, 'image'), [3_000_000, 100_000])
})
afterAll(async () => {
  await platform?.stop()
  await rm(folder, { recursive: true, force: true })
})

const address = (name: string) => `docker://${session.host}/default/${name}`
const to = () => ['--dest-tls-verify=false', '--dest-creds', `me:${session.token}`]
const from = () => ['--src-tls-verify=false', '--src-creds', `me:${session.token}`]
const at = () => ['--tls-verify=false', '--creds', `me:${session.token}`]
const copy = (...args: string[]) => run('skopeo', ['--insecure-policy', 'copy', '-q', ...args])
const digestAt = (name: string) =>
  run('skopeo', ['inspect', ...at(), '--format', '{{.Digest}}', address(name)]).then((text) => text.trim())

describe.skipIf(!has('skopeo'))('skopeo', () => {
  test('pushes and pulls byte for byte', async () => {
    await copy(...to(), `oci:${image.folder}:v1`, address('skopeo/app:v1'))
    expect(await digestAt('skopeo/app:v1')).toBe(image.manifest.digest)
    await copy(...from(), address('skopeo/app:v1'), `oci:${join(folder, 'pulled')}:v1`)
    const names = await readdir(join(folder, 'pulled/blobs/sha256'))
    expect(names.length).toBe(4)
    for (const { digest } of [image.manifest, image.config, ...image.layers]) {
      const [pulled, pushed] = await Promise.all(
        [join(folder, 'pulled'), image.folder].map((root) => readFile(blobPath(root, digest))),
      )
      expect(pulled!.equals(pushed!)).toBe(true)
    }
  })

  test('inspects, lists, copies within the registry without bytes, and deletes', async () => {
    await copy(...to(), `oci:${image.folder}:v1`, address('skopeo/tools:v1'))
    expect(
      JSON.parse(await run('skopeo', ['inspect', '--raw', ...at(), address('skopeo/tools:v1')])).layers,
    ).toHaveLength(2)
    expect(JSON.parse(await run('skopeo', ['inspect', '--config', ...at(), address('skopeo/tools:v1')])).os).toBe(
      'linux',
    )
    await copy(...from(), ...to(), address('skopeo/tools:v1'), address('skopeo/copied:v2'))
    const tags = () =>
      run('skopeo', ['list-tags', ...at(), address('skopeo/copied')]).then((text) => JSON.parse(text).Tags)
    expect(await tags()).toEqual(['v2'])
    await run('skopeo', ['delete', ...at(), address('skopeo/copied:v2')])
    expect(await tags()).toEqual([])
    expect(await digestAt('skopeo/tools:v1')).toBe(image.manifest.digest)
  })

  test('keeps indexes, and Docker’s own formats', async () => {
    await copy(...to(), '--format', 'v2s2', `oci:${image.folder}:v1`, address('skopeo/docker:v1'))
    const raw = JSON.parse(await run('skopeo', ['inspect', '--raw', ...at(), address('skopeo/docker:v1')]))
    expect(raw.mediaType).toBe('application/vnd.docker.distribution.manifest.v2+json')
  })

  test('signs in and out, and is refused without a token or with a revoked one', async () => {
    const file = join(folder, 'auth.json')
    const login = (token: string) =>
      run('skopeo', ['login', '--tls-verify=false', '--authfile', file, '-u', 'me', '-p', token, session.host])
    await login(session.token)
    await run('skopeo', ['list-tags', '--tls-verify=false', '--authfile', file, address('skopeo/app')])
    await expect(login('wrong')).rejects.toThrow(/unauthorized|invalid username/)
    const made = await session.client.send('POST', '/api/v1/registry/tokens', {})
    await login(made.token)
    await session.client.send('POST', `/api/v1/registry/tokens/${made.id}:revoke`)
    await expect(login(made.token)).rejects.toThrow(/unauthorized|invalid username/)
  })
})

describe.skipIf(!has('skopeo'))('image-archive imports', () => {
  test('an OCI archive gets the digest that skopeo copy gives it', async () => {
    const archive = join(folder, 'image.oci.tar')
    await copy(`oci:${image.folder}:v1`, `oci-archive:${archive}:v1`)
    await copy(...to(), `oci-archive:${archive}:v1`, address('imports/pushed:v1'))
    const record = await importEnd(session, await sendArchive(session, archive, { repository: 'imports/oci' }))
    expect(record.error).toBeNull()
    expect(record.image).toBe(`${session.host}/default/imports/oci:v1@${await digestAt('imports/pushed:v1')}`)
  })

  test('a docker-save archive gets the digest that skopeo copy --preserve-digests gives it', async () => {
    const archive = join(folder, 'image.docker.tar')
    await copy(`oci:${image.folder}:v1`, `docker-archive:${archive}:example.com/imports/saved:v2`)
    await copy(...to(), '--preserve-digests', `docker-archive:${archive}`, address('imports/preserved:v2'))
    const record = await importEnd(session, await sendArchive(session, archive))
    expect(record.error).toBeNull()
    expect(record.image).toBe(`${session.host}/default/imports/saved:v2@${await digestAt('imports/preserved:v2')}`)
    await copy(...from(), address('imports/saved:v2'), `oci:${join(folder, 'imported')}:v2`)
  })
})

describe.skipIf(!has('buildah') || !has('podman') || !has('runc') || process.getuid?.() !== 0)(
  'buildah and podman',
  () => {
    test('sign in, build, push, pull and sign out', async () => {
      const config = join(folder, 'containers.conf')
      const settings = [
        '[containers]',
        'default_ulimits = ["nofile=20000:20000","nproc=20000:20000"]',
        '[engine]',
        'cgroup_manager = "cgroupfs"',
        'events_logger = "file"',
        'runtime = "runc"',
      ]
      await writeFile(config, settings.join('\n'))
      const policy = join(folder, 'policy.json')
      await writeFile(policy, '{"default":[{"type":"insecureAcceptAnything"}]}')
      const storage = ['--root', join(folder, 'storage'), '--runroot', join(folder, 'run'), '--storage-driver', 'vfs']
      const tool = (program: string, ...args: string[]) =>
        run(program, [...storage, ...args], { CONTAINERS_CONF: config })
      const container = (await tool('buildah', 'from', 'scratch')).trim()
      await tool('buildah', 'copy', container, join(image.folder, 'index.json'), '/index.json')
      await tool('buildah', 'commit', '--signature-policy', policy, container, 'localhost/built:1')
      const name = `${session.host}/default/buildah/app:1`
      await tool('buildah', 'push', '--signature-policy', policy, ...at(), 'localhost/built:1', `docker://${name}`)
      const login = ['--tls-verify=false', '--authfile', join(folder, 'podman.json')]
      await tool('podman', 'login', ...login, '-u', 'me', '-p', session.token, session.host)
      await tool('podman', 'pull', '--signature-policy', policy, ...login, name)
      const [pulled] = JSON.parse(await tool('podman', 'image', 'inspect', name))
      expect(pulled.RepoDigests.join()).toContain(await digestAt('buildah/app:1'))
      await tool('podman', 'tag', name, `${session.host}/default/podman/app:2`)
      await tool('podman', 'push', '--signature-policy', policy, ...login, `${session.host}/default/podman/app:2`)
      await tool('podman', 'logout', '--authfile', join(folder, 'podman.json'), session.host)
      await expect(tool('podman', 'push', '--signature-policy', policy, ...login, name)).rejects.toThrow(/unauthorized/)
      expect((await session.v2('GET', 'default/podman/app/tags/list')).status).toBe(200)
    }, 120_000)
  },
)

describe.skipIf(!has('curl'))('curl', () => {
  test('sends a blob at once and in pieces, and resumes a pull', async () => {
    const path = blobPath(image.folder, image.layers[0]!.digest)
    const auth = ['-s', '-f', '-u', `me:${session.token}`]
    const uploads = `${platform.url}/v2/default/curl/blobs/uploads/`
    const { digest } = image.layers[0]!
    const binary = ['-H', 'Content-Type: application/octet-stream']
    await run('curl', [...auth, '-X', 'POST', ...binary, '--data-binary', `@${path}`, `${uploads}?digest=${digest}`])
    const target = join(folder, 'curled')
    await run('curl', [...auth, '-r', '0-999999', '-o', target, `${platform.url}/v2/default/curl/blobs/${digest}`])
    await run('curl', [...auth, '-C', '-', '-o', target, `${platform.url}/v2/default/curl/blobs/${digest}`])
    expect((await readFile(target)).equals(await readFile(path))).toBe(true)
  })
})
