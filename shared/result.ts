// Refusals are values. A `Result` either holds what was asked for or the failure that says why not.
// Exceptions are left for bugs: nothing in this project throws to steer.

import type { Failure } from './failures.ts'

export type Ok<T> = { readonly ok: true; readonly value: T }
export type Err<E> = { readonly ok: false; readonly error: E }
export type Result<T, E = Failure> = Ok<T> | Err<E>

export const ok = <T>(value: T): Ok<T> => ({ ok: true, value })
export const err = <E>(error: E): Err<E> => ({ ok: false, error })
