#!/usr/bin/env node
// The one entry point of `npm start`, `npm test` and their kin. Plain JavaScript that any Node.js >= 18 can run:
// it installs the locked dependencies when the lockfile changed, then hands over to the pinned Node.js 24.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const bin = (name) => join(root, 'node_modules', '.bin', name)
const stamp = join(root, 'node_modules', '.installed-lockfile')
const [task = 'start', ...rest] = process.argv.slice(2)

/** Each task is a list of commands; the caller's arguments go to the last one. */
const tasks = {
  start: [['node', 'server/src/main.ts']],
  'main-job': [['node', 'acceptance/main-job.ts']],
  test: [['vitest', 'run']],
  check: [
    ['biome', 'ci', '.'],
    ['tsc', '-p', '.'],
    ['node', 'server/src/generate.ts', '--check'],
  ],
  format: [['biome', 'check', '--write', '.']],
  generate: [['node', 'server/src/generate.ts']],
  backup: [['node', 'server/src/backup.ts', 'backup']],
  restore: [['node', 'server/src/backup.ts', 'restore']],
  'verify-audit': [['node', 'server/src/verify-audit.ts']],
  bench: [['node', 'bench/run.ts']],
}

function install() {
  const wanted = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  const have = existsSync(stamp) ? readFileSync(stamp, 'utf8') : ''
  if (have === wanted) return
  console.error('Installing the locked dependencies (the first time takes about a minute) …')
  const npm = spawnSync('npm', ['ci', '--loglevel=error', '--no-progress'], {
    cwd: root,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  if (npm.status !== 0) {
    console.error('npm ci failed; the lines above say why. Nothing was started.')
    process.exit(npm.status ?? 1)
  }
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, wanted)
}

/** The pinned Node.js 24 of this platform, or the caller's own where none is published for it. */
function node() {
  if (existsSync(bin('node'))) return bin('node')
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath
  console.error(`Node.js 24 is needed on ${process.platform}/${process.arch} and found ${process.version}.`)
  process.exit(1)
}

function run([command, ...args], extra) {
  const executable = command === 'node' ? node() : bin(command)
  const env = {
    // Decoding images and syncing files share libuv's threads; four of them hold uploads back.
    UV_THREADPOOL_SIZE: '16',
    ...process.env,
    PATH: `${join(root, 'node_modules', '.bin')}:${process.env.PATH}`,
  }
  const child = spawn(executable, [...args, ...extra], { cwd: root, stdio: 'inherit', env })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // npm that is told to end does not tell us; without a look at our parent the server would outlive `npm start`.
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    child.kill('SIGTERM')
  }, 500)
  return new Promise((resolve) => {
    child.on('error', (error) => {
      console.error(`${executable} cannot be started: ${error.message}`)
      process.exit(1)
    })
    child.on('exit', (code, signal) => {
      clearInterval(watch)
      resolve(signal ? 1 : (code ?? 1))
    })
  })
}

const commands = tasks[task]
if (!commands) {
  console.error(`unknown task '${task}'; one of: ${Object.keys(tasks).join(', ')}`)
  process.exit(2)
}
install()
for (const [index, command] of commands.entries()) {
  const code = await run(command, index === commands.length - 1 ? rest : [])
  if (code !== 0) process.exit(code)
}
