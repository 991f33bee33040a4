import { type Logger, pino } from 'pino'

export type Log = Logger

/** Structured log lines on standard output; anything that may hold a secret is blanked by name. */
export function createLog(level: string): Log {
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: {
      paths: [
        'password',
        'token',
        'secret',
        'authorization',
        'cookie',
        '*.password',
        '*.token',
        '*.secret',
        'req.headers',
      ],
      censor: '[redacted]',
    },
  })
}
