import { Counter, type Registry } from 'prom-client'
import { passwordChecks } from './passwords.ts'

/** What guessing costs: many more checks than logins are an attack, and each takes tens of milliseconds of processor time. */
export function measurePasswordChecks(registry: Registry): void {
  new Counter({
    name: 'platform_mlops_password_checks_total',
    help: 'Passwords held against a hash, right or wrong.',
    labelNames: ['algorithm'],
    registers: [registry],
    collect() {
      this.reset()
      for (const [algorithm, count] of Object.entries(passwordChecks)) this.inc({ algorithm }, count)
    },
  })
}
