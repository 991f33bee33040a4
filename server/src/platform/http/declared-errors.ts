import type { BodyKind, Operation } from './operation.ts'

/** Statuses that follow from access and input need no declaration. @source contract A */
export function declaresError(operation: Operation, status: number): boolean {
  // A Content-Type that can't be read is refused even where no body is expected.
  return status in operation.errors || status in impliedErrors(operation) || status >= 500 || status === 415
}

const takenTypes: Record<BodyKind, string> = {
  json: 'application/json',
  form: 'a form',
  multipart: 'multipart/form-data',
  stream: 'of a media type that can be read',
}

export function impliedErrors(operation: Operation): Record<number, string> {
  const { access } = operation
  const errors: Record<number, string> = {}
  if (access.level !== 'none') errors[401] = 'No valid credential, or an inactive user.'
  if (access.level === 'tenant') {
    errors[400] = 'No tenant chosen, or an unknown sort key (detail.allowed).'
    errors[403] = `The role lacks ${access.permission}.`
    errors[404] = 'No such tenant or resource for the caller.'
  }
  if (access.level === 'superuser') {
    errors[403] = 'Not a global administrator.'
    if (operation.path.includes('{')) errors[404] = 'No such resource.'
  }
  if (access.level === 'session' && operation.method !== 'GET') errors[403] = 'The request came from another origin.'
  if (operation.query && 'sort' in (operation.query.properties ?? {}))
    errors[400] ??= 'Unknown sort key (detail.allowed).'
  if (operation.body || operation.bodyKind !== 'none' || operation.query || operation.path.includes('{')) {
    errors[422] = 'The request does not fit the description; detail names the fields.'
  }
  if (operation.body && operation.bodyKind === 'json') errors[413] = 'The body is larger than 1 MiB.'
  if (operation.bodyKind !== 'none') errors[415] = `The body is not ${takenTypes[operation.bodyKind]}.`
  if (operation.etag) errors[304] = 'Not changed.'
  return errors
}
