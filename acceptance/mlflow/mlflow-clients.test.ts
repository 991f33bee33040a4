import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnPlatform, startOwnPlatform } from '../main-job/own-platform.ts'
import { findMlflowPython, hasExportImport, mlflowVersions } from './mlflow-environment.ts'

const email = 'admin@example.com'
const available = mlflowVersions.filter((version) => findMlflowPython(version))

let folder: string
let platform: OwnPlatform
let token: string
beforeAll(async () => {
  if (available.length === 0) return
  folder = await mkdtemp(join(tmpdir(), 'platform-mlops-mlflow-test-'))
  platform = await startOwnPlatform(folder, email)
  token = await trackerToken()
})
afterAll(async () => {
  await platform?.stop()
  if (folder) await rm(folder, { recursive: true, force: true })
})

async function trackerToken(): Promise<string> {
  const form = new URLSearchParams({ username: email, password: platform.password })
  const login = await fetch(`${platform.url}/auth/jwt/login`, { method: 'POST', body: form })
  const { access_token } = (await login.json()) as { access_token: string }
  const reply = await fetch(`${platform.url}/api/v1/tracker/tokens`, {
    method: 'POST',
    body: '{"name":"acceptance"}',
    headers: { authorization: `Bearer ${access_token}`, 'x-tenant': 'default', 'content-type': 'application/json' },
  })
  return ((await reply.json()) as { token: string }).token
}

function drive(python: string, script: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(python, [join(import.meta.dirname, script)], {
    cwd: folder,
    env: {
      ...process.env,
      MLFLOW_TRACKING_URI: `${platform.url}/tracker`,
      MLFLOW_TRACKING_TOKEN: token,
      GIT_PYTHON_REFRESH: 'quiet',
      PYTHONWARNINGS: 'ignore',
    },
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (piece) => (output += piece))
  return new Promise((resolve) => child.on('exit', (code) => resolve({ code, output })))
}

describe('the MLflow client, unchanged', () => {
  for (const version of mlflowVersions) {
    const python = findMlflowPython(version)
    test.skipIf(!python)(
      `${version} tracks, searches, uploads, registers and loads models`,
      async () => {
        const { code, output } = await drive(python!, 'client_test.py')
        expect(code, output).toBe(0)
        expect(output).toContain(`MLflow ${version}`)
        expect(output.match(/^ok /gm)?.length, output).toBe(12)
      },
      600_000,
    )
  }
})

describe('autologging of PyTorch', () => {
  const python = process.env.MLFLOW_LIGHTNING_PYTHON
  test.skipIf(!python)(
    'a training with Lightning has its parameters, a curve per epoch, its model and its checkpoint',
    async () => {
      const { code, output } = await drive(python!, 'lightning_test.py')
      expect(code, output).toBe(0)
      expect(output.match(/^ok /gm)?.length, output).toBe(3)
    },
    600_000,
  )
})

describe('mlflow-export-import', () => {
  const python = findMlflowPython('2.22.5')
  test.skipIf(!python || !hasExportImport(python))(
    'moves experiments from a stock server and to it, with their params, curves, files and models',
    async () => {
      const { code, output } = await drive(python!, 'export_import_test.py')
      expect(code, output).toBe(0)
      expect(output.match(/^ok /gm)?.length, output).toBe(2)
    },
    900_000,
  )
})
