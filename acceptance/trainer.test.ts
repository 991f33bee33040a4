import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { findTrainerPython } from './trainer-python.ts'

const trainerPython = findTrainerPython()
const folder = fileURLToPath(new URL('../trainer', import.meta.url))

test.skipIf(!trainerPython)("the trainer's own tests pass", { timeout: 600_000 }, async () => {
  const ran = await promisify(execFile)(
    trainerPython!,
    ['-m', 'unittest', 'discover', '--start-directory', 'tests', '-t', '.'],
    {
      cwd: folder,
      maxBuffer: 16 << 20,
    },
  ).catch((error: { stderr: string }) => error)
  expect(ran.stderr).toMatch(/\nOK( \(skipped=\d+\))?\n$/)
})
