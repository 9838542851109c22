/** The most journal entries that one read returns. */
export const PAGE = 500
/**
 * The kind of a journal's first row if the retention rule has removed the entries up to that row. Its hash
 * is that of the last one of them, its body the removal.
 */
export const REMOVED = 'removed'
