import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

/** A model server in a process of its own, on a free port. */
export type ServerProcess = {
  url: string
  child: ChildProcess
  /** Resolves with the exit code; `output` then holds what the server printed on stderr. */
  exited: Promise<number | null>
  output(): string
  post(path: string, type: string, body: string | Uint8Array<ArrayBuffer>): Promise<Response>
  postJson(path: string, value: unknown): Promise<Response>
  /** The value of one sample at /metrics, 0 when it is absent; `labels` as printed there. */
  metric(name: string, labels?: string): Promise<number>
  untilReady(): Promise<void>
  stop(): Promise<number | null>
}

export function spawnServer(modelDir: string, env: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, [main], {
    env: { PATH: process.env.PATH, MODEL_DIR: modelDir, PORT: '0', WORKERS: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Starts a server and waits until it listens; the model may still be loading. */
export async function listenServer(modelDir: string, env: Record<string, string> = {}): Promise<ServerProcess> {
  const child = spawnServer(modelDir, env)
  let errors = ''
  child.stderr!.on('data', (chunk) => {
    errors += chunk
  })
  const exited = once(child, 'exit').then(([code]) => code as number | null)
  const firstLine = once(createInterface(child.stdout!), 'line').then(([line]) => line as string)
  const line = await Promise.race([firstLine, exited.then(() => Promise.reject(new Error(`server ended: ${errors}`)))])
  const { port } = JSON.parse(line).listening
  const url = `http://127.0.0.1:${port}`
  const post: ServerProcess['post'] = (path, type, body) =>
    fetch(url + path, { method: 'POST', headers: { 'content-type': type }, body })
  return {
    url,
    child,
    exited,
    output: () => errors,
    post,
    postJson: (path, value) => post(path, 'application/json', JSON.stringify(value)),
    metric: async (name, labels = '') => {
      const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n')
      const sample = lines.find((candidate) => candidate.startsWith(`${name}${labels} `))
      return Number(sample?.split(' ').at(-1) ?? 0)
    },
    untilReady: async () => {
      while (!(await fetch(`${url}/ping`)).ok) await delay(20)
    },
    stop: () => {
      child.kill('SIGTERM')
      return exited
    },
  }
}

/** Starts a server and waits until the model is loaded. */
export async function startServer(modelDir: string, env: Record<string, string> = {}): Promise<ServerProcess> {
  const server = await listenServer(modelDir, env)
  await server.untilReady()
  return server
}
