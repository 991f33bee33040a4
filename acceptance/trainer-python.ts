import { spawnSync } from 'node:child_process'

/** Whether some Python here can train; tests that train are skipped, visibly, where none can. */
export function canTrain(): boolean {
  const candidates = [process.env.PLATFORM_MLOPS_TRAINER_PYTHON, 'python3', '/usr/bin/python3'].filter(
    (c) => c !== undefined,
  )
  return candidates.some(
    (python) => spawnSync(python, ['-c', 'import torch, torchvision'], { stdio: 'ignore' }).status === 0,
  )
}
