/** A model name from free text: what is no letter, digit, dot, dash or underscore becomes a dash. */
export function modelNameOf(name: string): string {
  const plain = name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 128)
    .replace(/[^A-Za-z0-9]+$/, '')
  return plain || 'model'
}

/** Name of an experiment's run in the tracker, where all runs of one name stand side by side. */
export const runNameOf = (experiment: { id: string; model: string }): string =>
  `${experiment.model}-${experiment.id.slice(-6)}`
