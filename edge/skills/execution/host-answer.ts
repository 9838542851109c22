// How the edge answers what a skill asked of it.

/** What the skill is told: a value, an error of its `result`, or nothing any more, for it asked for what it was not granted. */
export type Answer<T> = { readonly value: T } | { readonly error: string } | { readonly denied: string }

/** To what no isolate of ours sends. */
export const MALFORMED = { denied: 'what is no text or bytes' } as const
