// The edge's answers to requests of a skill that runs.

/**
 * A value, an error for the function's `result`, or a denial: the skill asked for something that it
 * was not granted, and the call ends.
 */
export type HostAnswer<T> = { readonly value: T } | { readonly error: string } | { readonly denied: string }

/** For arguments that our own harness never sends. */
export const MALFORMED = { denied: 'an argument is neither text nor bytes' } as const
