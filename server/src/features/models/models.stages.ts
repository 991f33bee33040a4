/** @source service §3.2 */
export const stages = ['None', 'Staging', 'Production', 'Archived'] as const

export type Stage = (typeof stages)[number]

/** Stages that a version takes at once; Production goes through a promotion. @source contract B12.5 */
export const directStages = ['None', 'Staging', 'Archived'] as const satisfies readonly Stage[]

/** The stage written in any case, or null. @source contract B10.10 */
export const stageNamed = (text: string): Stage | null =>
  stages.find((stage) => stage.toLowerCase() === text.toLowerCase()) ?? null
