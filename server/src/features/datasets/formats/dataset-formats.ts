import { classFoldersFormat } from './class-folders.format.ts'
import type { DatasetFormat } from './dataset-format.ts'

/** Every layout that is understood; the first that recognises a dataset reads it. */
export const datasetFormats: DatasetFormat[] = [classFoldersFormat]
