import type { TenantCtx } from '../../platform/context.ts'
import { transaction } from '../../platform/transaction.ts'
import {
  insertObjects,
  type ObjectInsert,
  type SampleUpdate,
  saveSamples,
  type Target,
} from './dataset-validation.store.ts'
import type { FindingCollector } from './finding-collector.ts'
import type { AnnotatedObject, Canvas, Sample } from './formats/dataset-format.ts'
import { storableText } from './storable-text.ts'

const samplesPerBatch = 1000
const objectsPerBatch = 2000
/** Annotation tools round to whole pixels, often outwards. */
const tolerancePixels = 1

/** Takes what a format says of the images and writes it in batches. */
export class SampleSink {
  #ordinal = 0
  #samples: SampleUpdate[] = []
  #objects: ObjectInsert[] = []
  readonly #ctx: TenantCtx
  readonly #target: Target
  readonly #findings: FindingCollector

  constructor(ctx: TenantCtx, target: Target, findings: FindingCollector) {
    this.#ctx = ctx
    this.#target = target
    this.#findings = findings
  }

  async sample({ file, split, label = null, annotated = false }: Sample): Promise<void> {
    this.#samples.push({ id: file.id, label: label && storableText(label), split, annotated })
    if (this.#samples.length >= samplesPerBatch) await this.flush()
  }

  async objects(canvas: Canvas, objects: AnnotatedObject[], { line }: { line?: number } = {}): Promise<void> {
    for (const { class: name, shape, ...geometry } of objects) {
      this.#checkBounds(canvas, geometry.box, line)
      this.#objects.push({ fileId: canvas.id, ordinal: this.#ordinal++, class: storableText(name), shape, geometry })
    }
    if (this.#objects.length >= objectsPerBatch) await this.flush()
  }

  #checkBounds({ id, path, width, height }: Canvas, box: AnnotatedObject['box'], line?: number): void {
    if (box[2] === 0 || box[3] === 0) {
      const message = `The shape of ${box[2]} × ${box[3]} pixels has no area.`
      this.#findings.add({ code: 'empty_shape', message, fileId: id, path, line: line ?? null })
    }
    if (width === null || height === null) return
    const [x, y, w, h] = box
    const over = Math.max(-x, -y, x + w - width, y + h - height)
    if (over <= tolerancePixels) return
    const message = `The shape reaches ${Math.round(over)} px beyond the image of ${width} × ${height}.`
    this.#findings.add({ code: 'box_outside_image', message, fileId: id, path, line: line ?? null })
  }

  async flush(): Promise<void> {
    const [samples, objects] = [this.#samples, this.#objects]
    this.#samples = []
    this.#objects = []
    if (samples.length + objects.length === 0) return
    await transaction(this.#ctx, async (tx) => {
      if (samples.length > 0) await saveSamples(tx, this.#target, samples)
      for (let at = 0; at < objects.length; at += objectsPerBatch)
        await insertObjects(tx, this.#target, objects.slice(at, at + objectsPerBatch))
    })
  }
}
