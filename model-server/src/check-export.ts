import { readFile } from 'node:fs/promises'
import { InferenceSession, Tensor } from 'onnxruntime-node'
import { readModelFolder } from './model-folder.ts'

/** What the training framework itself answered for one input; values are flat and row-major. */
export type ExportCheck = {
  input: { shape: number[]; data: number[] }
  output: { shape: number[]; data: number[] }
  /** Largest absolute difference allowed for any output value. */
  tolerance: number
}

/**
 * Runs an exported model and compares it with the framework it came from.
 * Throws when a shape differs, a value is not finite, or any difference is over the tolerance.
 */
export async function checkExport(modelFolder: string, check: ExportCheck): Promise<{ max_difference: number }> {
  const model = await readModelFolder(modelFolder)
  const session = await InferenceSession.create(model.onnxFile, { intraOpNumThreads: 1 })
  const input = new Tensor('float32', Float32Array.from(check.input.data), check.input.shape)
  const { [model.output.name]: output } = await session.run({ [model.input.name]: input }, [model.output.name])
  if (!output) throw new Error(`the exported model has no output '${model.output.name}'`)
  if (String(output.dims) !== String(check.output.shape) || output.data.length !== check.output.data.length) {
    throw new Error(`the exported model answers shape [${output.dims}], the framework [${check.output.shape}]`)
  }
  const differences = check.output.data.map((value, index) => Math.abs(value - Number(output.data[index])))
  if (differences.length === 0 || !differences.every(Number.isFinite)) {
    throw new Error('the outputs hold values that are not finite numbers')
  }
  const largest = differences.reduce((max, value) => Math.max(max, value), 0)
  if (!(largest <= check.tolerance)) {
    throw new Error(`the exported model differs by ${largest}, more than the tolerance ${check.tolerance}`)
  }
  return { max_difference: largest }
}

if (import.meta.main) {
  const [modelFolder, checkFile] = process.argv.slice(2)
  try {
    if (!modelFolder || !checkFile) throw new Error('usage: check-export.ts <model folder> <export_check.json>')
    const check: ExportCheck = JSON.parse(await readFile(checkFile, 'utf8'))
    console.log(JSON.stringify(await checkExport(modelFolder, check)))
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
}
