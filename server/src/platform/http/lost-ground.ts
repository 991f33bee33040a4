import { notFound } from '../errors.ts'

// @source PostgreSQL, Appendix A
const foreignKeyViolation = '23503'
const toUsers = /_user_id_fkey$/

/**
 * What a request stands on may be deleted while it is under way: who sent it, the tenant it chose, the user it is about.
 * A row that refers to it is then refused by the database. The gate is asked again and says what it would say to the next
 * request (401, 404); a user it knows nothing of is not found. Any other error stays what it is.
 */
export async function lostGround(thrown: unknown, passAgain: () => Promise<unknown>): Promise<unknown> {
  const { code, constraint = '' } = thrown as { code?: string; constraint?: string }
  if (code !== foreignKeyViolation) return thrown
  return passAgain().then(
    () => (toUsers.test(constraint) ? notFound('There is no such user.', { cause: thrown }) : thrown),
    (refusal: unknown) => refusal,
  )
}
