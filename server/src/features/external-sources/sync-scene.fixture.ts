import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { TestClient } from '../../../test/harness.ts'
import { type SourceServer, startWebFolder } from '../../adapters/external-sources/source-server.fixture.ts'
import { filesOf as listFiles, type SyncScene, startSyncScene } from './followed-datasets.fixture.ts'

// What every test of a file works with, set by the hooks of `useSyncScene`.

export let scene: SyncScene
export let developer: TestClient
/** A new one for each test. */
export let web: SourceServer

/** One platform for the tests of a file, whose sources are given up after so many silent seconds. */
export function useSyncScene(silenceSeconds: number): void {
  beforeAll(async () => {
    scene = await startSyncScene(silenceSeconds)
    developer = scene.developer
  })
  afterAll(() => scene?.stop())
  beforeEach(async () => {
    web = await startWebFolder()
    return () => web.close()
  })
}

/** Adds the web folder, or a place in it, as a source. */
export const addWeb = (path = '/') => scene.addSource('http', { url: web.url + path })

export const filesOf = (dataset: string) => listFiles(developer, dataset)
