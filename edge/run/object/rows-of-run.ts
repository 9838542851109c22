/**
 * A run's number is part of the keys of its rows: call n of run r has the key r × 2^32 + n, and its
 * journal is numbered in the same way. The first run of an object has number 0, so the rows of a
 * run with an object to itself have their own numbers.
 */
export const ROWS_OF_RUN = 2 ** 32
