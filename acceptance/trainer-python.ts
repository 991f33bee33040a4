import { spawnSync } from 'node:child_process'

/** A Python here that can train, or undefined: tests that train are skipped then, visibly. */
export function findTrainerPython(): string | undefined {
  const candidates = [process.env.PLATFORM_MLOPS_TRAINER_PYTHON, 'python3', '/usr/bin/python3']
  return candidates.find(
    (python) => python && spawnSync(python, ['-c', 'import torch, torchvision'], { stdio: 'ignore' }).status === 0,
  )
}
