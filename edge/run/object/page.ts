/** The most journal entries that one read returns. */
export const PAGE = 500
