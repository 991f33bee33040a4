import type { Split } from '../splits.ts'
import type { Finding, Variable } from '../validation-report.ts'

/** The training tasks. @source anchors: six CV tasks, and tables */
export type TaskType =
  | 'image_classification'
  | 'object_detection'
  | 'instance_segmentation'
  | 'semantic_segmentation'
  | 'keypoint_detection'
  | 'oriented_object_detection'

/** A file as the formats see it. */
export interface FormatFile {
  id: string
  path: string
  kind: string
  digest: string
  size: number
  width: number | null
  height: number | null
  status: string
}

export type Shape = 'box' | 'polygon' | 'mask' | 'keypoints' | 'oriented_box'

/** `[x, y, width, height]` in pixels from the top left. */
export type Box = [number, number, number, number]

export interface AnnotatedObject {
  class: string
  shape: Shape
  /** Around the whole object. */
  box: Box
  /** Outlines as flat `[x, y, …]` lists in pixels; four corners for an oriented box. */
  polygons?: number[][]
  /** COCO run lengths, column by column. */
  rle?: { size: [number, number]; counts: number[] | string }
  /** `[x, y, visibility, …]`. */
  keypoints?: number[]
  crowd?: boolean
}

/** What a format says of one image. */
export interface Sample {
  file: FormatFile
  split: Split | null
  label?: string | null
  /** Null when no annotation speaks of the image; empty when one says that nothing is on it. */
  objects?: AnnotatedObject[] | null
}

/** What a format may ask for and tell while it reads a dataset. Nothing here holds the whole dataset in memory. */
export interface FormatContext {
  survey: Survey
  signal: AbortSignal
  /** Files in path order, some hundreds at a time. */
  pages(kinds: string[]): AsyncIterable<FormatFile[]>
  find(paths: string[]): Promise<Map<string, FormatFile>>
  open(file: FormatFile): Promise<AsyncIterable<Uint8Array>>
  /** The whole of a small text file. */
  text(file: FormatFile): Promise<string>
  sample(sample: Sample): Promise<void>
  finding(finding: Finding): void
  progress(fraction: number): void
}

export interface FormatResult {
  /** In the order of their numbers. */
  classes: string[]
  tasks: TaskType[]
  /** Every image without an annotation is worth a warning. */
  annotatesImages?: boolean
  variables?: Variable[]
  rows?: number
}

/** One way to lay out a dataset: recognised by its paths, read in one pass. */
export interface DatasetFormat {
  name: string
  recognise(survey: Survey, peek: Peek): Promise<boolean> | boolean
  read(context: FormatContext): Promise<FormatResult>
}

/** The first bytes of a file as text. */
export type Peek = (path: string, bytes: number) => Promise<string>

/** What one pass over the paths shows: per folder, how many files of which extension. */
export interface Survey {
  images: number
  files: number
  /** Folder (without a slash at the end, '' at the top) → extension → number of files. */
  folders: Map<string, Map<string, number>>
  /** A few paths per extension, the first in order. */
  examples: Map<string, string[]>
}

export const imageExtensions = ['jpg', 'jpeg', 'png', 'webp', 'bmp', 'tif', 'tiff', 'gif', 'avif']
