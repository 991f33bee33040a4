import type { FileKind } from '../file-kinds.ts'
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
  /** Pixels of the class in a mask image, and its path. */
  area?: number
  mask?: string
}

/** What a format says of one image. */
export interface Sample {
  file: Pick<FormatFile, 'id' | 'path'>
  split: Split | null
  /** Class of the whole image. */
  label?: string | null
  /** Whether an annotation speaks of the image, be it to say that nothing is on it. */
  annotated?: boolean
}

/** An image that objects lie on. */
export type Canvas = Pick<FormatFile, 'id' | 'path' | 'width' | 'height'>

/** What a format may ask for and tell while it reads a dataset. Nothing here holds the whole dataset in memory. */
export interface FormatContext {
  survey: Survey
  signal: AbortSignal
  /** Files in path order, a thousand at a time. */
  pages(kinds: FileKind[]): AsyncIterable<FormatFile[]>
  find(paths: string[]): Promise<Map<string, FormatFile>>
  open(file: FormatFile, range?: { start: number; end: number }): Promise<AsyncIterable<Uint8Array>>
  /** The whole of a small text file; throws when it is too large. */
  text(file: FormatFile): Promise<string>
  sample(sample: Sample): Promise<void>
  /** Objects of an image; those of one image may come in several calls. */
  objects(canvas: Canvas, objects: AnnotatedObject[], source?: { line?: number }): Promise<void>
  /** Files that are images by their name and annotations by what they are for, such as masks. */
  annotations(files: Pick<FormatFile, 'id'>[]): Promise<void>
  finding(finding: Finding, count?: number): void
  progress(fraction: number, message?: string): void
}

export interface FormatResult {
  /** In the order of their numbers. */
  classes: string[]
  tasks: TaskType[]
  /** Every image without an annotation is worth a warning. */
  annotatesImages?: boolean
  /** Rows per class, where they are not files. */
  rowsPerClass?: Map<string, number>
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
