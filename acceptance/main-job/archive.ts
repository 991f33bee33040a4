import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { pipeline } from 'node:stream/promises'
import yauzl from 'yauzl'
import yazl from 'yazl'
import { makeSampleImages } from '../sample-images.ts'
import { JobError } from './client.ts'

/** An image kept out of training, to measure with. */
export interface HeldOutImage {
  path: string
  label: string
  read(): Promise<Buffer>
}

export interface Archive {
  /** A ZIP with `train/<class>/…` and `test/<class>/…`. */
  path: string
  heldOut: HeldOutImage[]
  generated: boolean
}

const imageName = /\.(jpe?g|png|webp|bmp|tiff?|gif)$/i
const testFolder = /^(test|testing)$/i
const splitFolder = /^(train|training|test|testing|val|valid|validation)$/i

interface Member {
  path: string
  read(): Promise<Buffer>
}

/**
 * The archive the job works on: the ZIP or folder it was given, or a small generated one. Where no test part is set
 * apart, every fifth image of each class becomes it.
 */
export async function prepareArchive(source: string | null, workFolder: string): Promise<Archive> {
  if (!source) {
    const path = join(workFolder, 'sample-images.zip')
    await makeSampleImages(path, { classes: 4, perClass: 60, testPerClass: 15, size: 64, seed: 7 })
    return { path, heldOut: heldOutOf(await zipMembers(path)), generated: true }
  }
  const info = await stat(source).catch(() => null)
  if (!info) throw new JobError(`${source}: there is no such file or folder`)
  const members = (info.isDirectory() ? await folderMembers(source) : await zipMembers(source)).filter((m) =>
    imageName.test(m.path),
  )
  if (members.length === 0) throw new JobError(`${source} holds no images`)
  const apart = heldOutOf(members)
  if (apart.length && info.isFile()) return { path: source, heldOut: apart, generated: false }
  const split = apart.length ? members.map((m) => ({ ...m, path: trimmed(m.path) })) : setApart(members)
  const path = join(await mkdtemp(join(workFolder, 'archive-')), 'images.zip')
  await writeZip(path, split)
  return { path, heldOut: heldOutOf(split), generated: false }
}

/** The part of a path from its split folder on. */
function trimmed(path: string): string {
  const parts = path.split('/')
  return parts
    .slice(
      Math.max(
        0,
        parts.findIndex((part) => splitFolder.test(part)),
      ),
    )
    .join('/')
}

function heldOutOf(members: Member[]): HeldOutImage[] {
  return members.flatMap((member) => {
    const parts = member.path.split('/')
    const at = parts.findIndex((part) => testFolder.test(part))
    const label = at >= 0 ? parts[at + 1] : undefined
    return label && parts.length > at + 2 && imageName.test(member.path) ? [{ ...member, label }] : []
  })
}

function setApart(members: Member[]): Member[] {
  const seen = new Map<string, number>()
  return [...members]
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .map((member) => {
      const [label, name] = member.path.split('/').slice(-2)
      if (!label || !name) throw new JobError(`${member.path}: every image must lie in a folder named after its class`)
      const count = (seen.get(label) ?? 0) + 1
      seen.set(label, count)
      return { ...member, path: `${count % 5 === 0 ? 'test' : 'train'}/${label}/${name}` }
    })
}

async function folderMembers(folder: string): Promise<Member[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return { path: relative(folder, path).split(sep).join('/'), read: () => readFile(path) }
    })
}

async function zipMembers(path: string): Promise<Member[]> {
  const zip = await yauzl.openPromise(path, { autoClose: false }).catch((error: Error) => {
    throw new JobError(`${path} is neither a folder nor a readable ZIP: ${error.message}`)
  })
  const members: Member[] = []
  for await (const entry of zip.eachEntry()) {
    if (entry.fileName.endsWith('/')) continue
    const read = async () => Buffer.concat(await Array.fromAsync(await zip.openReadStreamPromise(entry)))
    members.push({ path: entry.fileName, read })
  }
  return members
}

async function writeZip(path: string, members: Member[]): Promise<void> {
  await mkdir(join(path, '..'), { recursive: true })
  const zip = new yazl.ZipFile()
  const written = pipeline(zip.outputStream, createWriteStream(path))
  for (const member of members) zip.addBuffer(await member.read(), member.path, { compress: false })
  zip.end()
  await written
}
