/** What PostgreSQL can keep of a text that somebody else wrote: it knows neither NUL nor halves of characters. */
export const storableText = (text: string): string => text.toWellFormed().replaceAll('\0', '\uFFFD')

/** JSON whose texts can be kept. */
export const storableJson = (value: unknown): string =>
  JSON.stringify(value, (_, part) => (typeof part === 'string' ? storableText(part) : part))
