// Which archive has the entry of a run: it follows from the run's id, so nothing has to remember it.

const TIME = /^run_([0-7][0-9A-HJKMNP-TV-Z]{9})/
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
/** Times from here on are no times: the ids are derived from idempotency keys (edge/run/run-id.ts). */
const KEYED = 0x7f0000000000
const DAY_CHARS = 'YYYY-MM-DD'.length

/** When the run was made; null if its id is that of an idempotency key. */
export function bornAt(run: string): number | null {
  const time = TIME.exec(run)?.[1]
  if (time === undefined) throw new Error('not the id of a run')
  const at = Array.from(time).reduce((sum, char) => sum * 32 + CROCKFORD.indexOf(char), 0)
  return at < KEYED ? at : null
}

/**
 * The archive of the day on which the run was made. A run of a key may be of any day; these have 32
 * archives, by the last character of the id, which is part of a MAC.
 */
export function archiveOf(run: string): string {
  const at = bornAt(run)
  return at === null ? `keyed-${run.slice(-1)}` : new Date(at).toISOString().slice(0, DAY_CHARS)
}
