/** Why an archive is refused as a whole. */
export type ArchiveFault =
  | 'not_an_archive'
  | 'damaged'
  | 'encrypted'
  | 'unsafe_path'
  | 'special_entry'
  | 'overlap'
  | 'size_mismatch'
  | 'too_many_entries'
  | 'too_large'
  | 'ratio'

/** An untrusted archive that must not be used at all; the message is written for the person who sent it. */
export class ArchiveError extends Error {
  readonly code = 'archive_invalid'
  readonly reason: ArchiveFault
  /** The entry that is at fault, as the archive names it. */
  readonly member: string | null

  constructor(reason: ArchiveFault, message: string, member: string | null = null, cause?: unknown) {
    super(member === null ? message : `${message}: ${JSON.stringify(member)}`, { cause })
    this.name = 'ArchiveError'
    this.reason = reason
    this.member = member
  }
}
