// Refusals are values: a `Result` holds either the value or the failure that explains its absence.
// Exceptions are for bugs; no code here throws for control flow.

import type { Failure } from './failures.ts'

export type Ok<T> = { readonly ok: true; readonly value: T }
export type Err<E> = { readonly ok: false; readonly error: E }
export type Result<T, E = Failure> = Ok<T> | Err<E>

export const ok = <T>(value: T): Ok<T> => ({ ok: true, value })
export const err = <E>(error: E): Err<E> => ({ ok: false, error })
