import type { Split } from './splits.ts'

export type Severity = 'error' | 'warning'

/** Every finding the validation can make: its severity and what it means. @source issue: validation report */
export const findingCodes = {
  validation_aborted: ['error', 'The validation itself failed: start it again.'],
  unreadable_image: ['error', 'The image is damaged, cut short or no image.'],
  image_too_large: ['error', 'The image has more pixels than can be decoded safely.'],
  unreadable_annotation: ['error', 'The annotation file or line can not be read.'],
  unreadable_table: ['error', 'The table or row can not be read.'],
  unknown_class: ['error', 'The annotation names a class that the class list lacks.'],
  invalid_geometry: ['error', 'The annotation has no usable shape.'],
  empty_shape: ['warning', 'The shape has no area: it is counted, and of no use.'],
  wrong_extension: ['warning', 'The content is of another type than the name says.'],
  duplicate_image: ['warning', 'Another file of the dataset has the same bytes.'],
  near_duplicate_image: ['warning', 'Another image looks almost the same.'],
  leakage_between_splits: ['warning', 'The same image stands in two splits.'],
  box_outside_image: ['warning', 'The shape reaches beyond the image.'],
  annotation_without_image: ['warning', 'The annotation is of an image that is not there.'],
  image_without_annotation: ['warning', 'No annotation speaks of this image.'],
  image_without_label: ['warning', 'The image lies in no class folder.'],
  empty_annotation: ['warning', 'The annotation says that nothing is on the image.'],
  class_imbalance: ['warning', 'One class has more than ten times the samples of another.'],
  class_missing_in_split: ['warning', 'A split has no sample of the class.'],
  too_few_classes: ['warning', 'A classification needs two classes.'],
  unknown_format: ['warning', 'The files follow no layout that is understood.'],
} as const satisfies Record<string, readonly [Severity, string]>

export type FindingCode = keyof typeof findingCodes

export interface Finding {
  code: FindingCode
  message: string
  fileId?: string | null
  path?: string | null
  line?: number | null
}

export interface Issue {
  code: string
  severity: Severity
  message: string
  file_id: string | null
  path: string | null
  line: number | null
}

/** The report as it is stored and shown. */
export interface ValidationReport {
  checked_at: string
  total: number
  ok: number
  warnings: number
  errors: number
  match_rate: number | null
  counts: { code: string; severity: Severity; count: number }[]
  issues: Issue[]
}

export interface Variable {
  name: string
  dtype: string
  role?: string | null
  unit?: string | null
  nullable?: boolean | null
  min?: number | null
  max?: number | null
  categories?: string[] | null
  missing_rate?: number | null
}

export interface Range {
  min: number
  median: number
  max: number
}

export interface ClassCount {
  name: string
  /** Samples (images, rows) that show the class. */
  samples: number
  /** Annotated objects of the class; 0 where the format has none. */
  objects: number
  splits: Partial<Record<Split, number>>
}

export interface Statistics {
  images: number
  width: Range | null
  height: Range | null
  annotated_images: number
  objects: number
  objects_by_shape: Record<string, number>
  rows: number
  classes: ClassCount[]
}
