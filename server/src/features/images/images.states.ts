/** States of a model image. @source contract B12.4 */
export const imageStates = ['PENDING', 'BUILDING', 'PUSHING', 'READY', 'FAILED', 'CANCELED'] as const

export type ImageState = (typeof imageStates)[number]

export const buildingStates: readonly ImageState[] = ['PENDING', 'BUILDING', 'PUSHING']

export const isBuilding = (state: string): boolean => (buildingStates as readonly string[]).includes(state)

/** The steps of a build: what the image is meanwhile, and the share of the whole that each takes. */
export const buildSteps = [
  { id: 'check', state: 'BUILDING', share: 0.02 },
  { id: 'build', state: 'BUILDING', share: 0.93 },
  { id: 'publish', state: 'PUSHING', share: 0.05 },
] as const satisfies { id: string; state: ImageState; share: number }[]

/** How far a build is, from 0 to 1, when one of its steps is so far. */
export function buildProgress(stepId: string, stepProgress: number): number {
  const at = buildSteps.findIndex(({ id }) => id === stepId)
  const before = buildSteps.slice(0, at).reduce((sum, { share }) => sum + share, 0)
  return before + (buildSteps[at]?.share ?? 0) * stepProgress
}
