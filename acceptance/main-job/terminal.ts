/** One line per stage with its time; a progress bar where the terminal can show one. */
export interface Stages {
  /** Runs one stage and prints its line. `note` of the result stands behind the time. */
  stage<T>(
    name: string,
    work: (bar: (fraction: number, text?: string) => void) => Promise<T>,
    note?: (result: T) => string,
  ): Promise<T>
  seconds: Record<string, number>
  table(rows: [string, string][]): void
}

const width = 24

export function createStages(output: NodeJS.WriteStream = process.stdout): Stages {
  const seconds: Record<string, number> = {}
  const clear = () => output.isTTY && output.write('\r\u001b[K')
  return {
    seconds,
    async stage(name, work, note) {
      const began = performance.now()
      let lastShare = -1
      const bar = (fraction: number, text = '') => {
        const share = Math.max(0, Math.min(1, fraction))
        if (output.isTTY) {
          const full = Math.round(share * width)
          clear()
          output.write(
            `… ${name.padEnd(28)} ${'█'.repeat(full)}${'░'.repeat(width - full)} ${Math.round(share * 100)} % ${text}`.slice(
              0,
              (output.columns ?? 120) - 1,
            ),
          )
        } else if (Math.floor(share * 4) > lastShare) {
          // Without a terminal a line at each quarter says enough.
          lastShare = Math.floor(share * 4)
          output.write(`  ${name}: ${Math.round(share * 100)} % ${text}\n`)
        }
      }
      try {
        const result = await work(bar)
        seconds[name] = (performance.now() - began) / 1000
        clear()
        output.write(`✓ ${name.padEnd(28)} ${time(seconds[name])}  ${note?.(result) ?? ''}`.trimEnd().concat('\n'))
        return result
      } catch (error) {
        clear()
        output.write(`✗ ${name.padEnd(28)} ${time((performance.now() - began) / 1000)}\n`)
        throw error
      }
    },
    table(rows) {
      const left = Math.max(...rows.map(([key]) => key.length))
      const right = Math.max(...rows.map(([, value]) => value.length))
      const line = `+${'-'.repeat(left + 2)}+${'-'.repeat(right + 2)}+\n`
      output.write(
        line + rows.map(([key, value]) => `| ${key.padEnd(left)} | ${value.padStart(right)} |\n`).join('') + line,
      )
    },
  }
}

const time = (value: number) => `${value.toFixed(value < 10 ? 2 : 1).padStart(7)} s`

/** The value below which the share `p` (0 to 1) of the values lies; nearest rank. */
export function percentile(values: number[], p: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] ?? Number.NaN
}
