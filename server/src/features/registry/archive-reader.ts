import { readDockerArchive } from './docker-archive.ts'
import { type ArchivedImage, type ArchiveFolder, importFault } from './image-archive.ts'
import { readOciLayout } from './oci-layout.ts'

/**
 * The images of an unpacked archive. One that is both (newer `docker save`) is read as an OCI layout, because that
 * keeps its digests. Throws an import fault. @source contract B6.3
 */
export async function readImageArchive(folder: ArchiveFolder): Promise<ArchivedImage[]> {
  const images = (await readOciLayout(folder)) ?? (await readDockerArchive(folder))
  if (!images) {
    throw importFault('no_manifest', 'The archive is neither from docker save nor an OCI layout: it has no manifest.')
  }
  if (images.length === 0) throw importFault('no_manifest', 'The archive holds no image.')
  return images
}
