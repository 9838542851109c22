/**
 * A run's number is part of the keys of its rows: call n of run r has the key r × 2^32 + n, and its
 * journal is numbered in the same way. The first run of an object has number 0, so in an object
 * with one run, call n has the key n.
 */
export const ROWS_OF_RUN = 2 ** 32
