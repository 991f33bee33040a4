import { expect, test } from 'vitest'
import {
  conflict,
  forbidden,
  notFound,
  PlatformError,
  tooManyRequests,
  unauthorized,
} from '../../../platform/errors.ts'
import { ociError, ociErrorBody, ociErrorCatalogue, toOciError } from './oci-errors.ts'

test('the codes are the fourteen of the specification, with the statuses of the contract', () => {
  const statuses = Object.fromEntries(Object.entries(ociErrorCatalogue).map(([code, { status }]) => [code, status]))
  expect(statuses).toEqual({
    BLOB_UNKNOWN: 404,
    BLOB_UPLOAD_INVALID: 416,
    BLOB_UPLOAD_UNKNOWN: 404,
    DIGEST_INVALID: 400,
    MANIFEST_BLOB_UNKNOWN: 404,
    MANIFEST_INVALID: 400,
    MANIFEST_UNKNOWN: 404,
    NAME_INVALID: 400,
    NAME_UNKNOWN: 404,
    SIZE_INVALID: 400,
    UNAUTHORIZED: 401,
    DENIED: 403,
    UNSUPPORTED: 405,
    TOOMANYREQUESTS: 429,
  })
})

test('the body is the specification’s, with detail always there', () => {
  const text = ociErrorCatalogue.BLOB_UNKNOWN.text
  expect(ociErrorBody(ociError('BLOB_UNKNOWN'))).toEqual({
    errors: [{ code: 'BLOB_UNKNOWN', message: text, detail: null }],
  })
  const error = ociError('MANIFEST_BLOB_UNKNOWN', { message: 'no layer', detail: { digest: 'sha256:1' } })
  expect(ociErrorBody(error)).toEqual({
    errors: [{ code: 'MANIFEST_BLOB_UNKNOWN', message: 'no layer', detail: { digest: 'sha256:1' } }],
  })
})

test('the platform’s errors of access and load have a form here, headers kept', () => {
  expect(toOciError(unauthorized())).toMatchObject({ code: 'UNAUTHORIZED', status: 401 })
  expect(toOciError(forbidden('no'))).toMatchObject({ code: 'DENIED', status: 403, message: 'no' })
  const limited = tooManyRequests(undefined, { headers: { 'Retry-After': '3' } })
  expect(toOciError(limited)).toMatchObject({ code: 'TOOMANYREQUESTS', status: 429, headers: { 'Retry-After': '3' } })
  expect(toOciError(new PlatformError('payload_too_large'))).toMatchObject({ code: 'SIZE_INVALID', status: 413 })
  expect(toOciError(conflict('held'))).toMatchObject({ code: 'DENIED', status: 403, message: 'held' })
  expect(toOciError(new PlatformError('insufficient_storage'))).toMatchObject({ code: 'DENIED', status: 507 })
})

test('what the specification has no code for gets none', () => {
  expect(toOciError(new PlatformError('internal_error'))).toBeNull()
  expect(toOciError(notFound()), 'a store that misses a blob does not know which 404 this is').toBeNull()
  expect(toOciError(new Error('boom'))).toBeNull()
})
