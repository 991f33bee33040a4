import { defineConfig } from 'vitest/config'

if (Number(process.versions.node.split('.')[0]) < 24) {
  throw new Error(
    'Run the tests by npm test, or with node_modules/.bin first in PATH: they need the pinned Node.js 24.',
  )
}

export default defineConfig({
  test: {
    include: ['server/**/*.test.ts', 'model-server/**/*.test.ts', 'acceptance/**/*.test.ts', 'packages/**/*.test.ts'],
    globalSetup: ['server/test/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // On a machine that does other things too, something may come late once; what fails twice is a fault. Elsewhere than in
    // continuous integration once is enough, so that such tests are found and mended.
    retry: process.env.CI ? 1 : 0,
    // Limits are for what hangs, not for what is slow.
    testTimeout: 120_000,
    hookTimeout: 300_000,
  },
})
