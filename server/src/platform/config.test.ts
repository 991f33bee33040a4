import { expect, test } from 'vitest'
import { ConfigurationError, loadConfig } from './config.ts'

test('defaults need no environment', () => {
  const config = loadConfig({})
  expect([config.host, config.port, config.publicUrl, config.authTokenLifetime]).toEqual(['127.0.0.1', 8080, null, 0])
  expect([...config.roles]).toEqual(['web', 'worker'])
})

test('every fault is reported at once, by name, and no secret is repeated', () => {
  const env = {
    PLATFORM_MLOPS_PORT: '99999',
    PLATFORM_MLOPS_PUBLIC_URL: 'ftp://x',
    PLATFORM_MLOPS_ADMIN_PASSWORD: 'short',
    PLATFORM_MLOPS_ROLES: 'king',
    PLATFORM_MLOPS_PROT: '8080',
  }
  try {
    loadConfig(env)
    expect.unreachable()
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError)
    const { faults, message } = error as ConfigurationError
    expect(faults.map((fault) => fault.split(' ')[0])).toEqual([
      'PLATFORM_MLOPS_PORT',
      'PLATFORM_MLOPS_PUBLIC_URL',
      'PLATFORM_MLOPS_ROLES',
      'PLATFORM_MLOPS_ADMIN_PASSWORD',
      'PLATFORM_MLOPS_PROT',
    ])
    expect(message).not.toContain('short')
  }
})

test('the cookie is Secure where people come by https', () => {
  expect(loadConfig({ PLATFORM_MLOPS_PUBLIC_URL: 'https://ml.example/' }).cookieSecure).toBe(true)
  expect(loadConfig({}).cookieSecure).toBe(false)
  expect(loadConfig({ PLATFORM_MLOPS_PUBLIC_URL: 'https://ml.example/' }).publicUrl).toBe('https://ml.example')
})

test('names that clients read from the same environment are no fault, and empty values are absent', () => {
  const config = loadConfig({
    PLATFORM_MLOPS_URL: 'http://x',
    PLATFORM_MLOPS_TENANT: 'default',
    PLATFORM_MLOPS_PORT: '',
  })
  expect(config.port).toBe(8080)
})
