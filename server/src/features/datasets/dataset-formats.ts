import { classFoldersFormat } from './formats/class-folders.format.ts'
import { cocoFormat } from './formats/coco.format.ts'
import type { DatasetFormat } from './formats/dataset-format.ts'
import { masksFormat } from './formats/masks.format.ts'
import { vocFormat } from './formats/voc.format.ts'
import { yoloFormat } from './formats/yolo.format.ts'
import { tablesFormat } from './tables.format.ts'

/** Every layout that is understood; the first that recognises a dataset reads it. */
export const datasetFormats: DatasetFormat[] = [
  cocoFormat,
  vocFormat,
  yoloFormat,
  masksFormat,
  classFoldersFormat,
  tablesFormat,
]
