// What a command is: its words, arguments and flags, what it needs and what it does. Help, parsing and running all read this one shape.
// It holds no command and does nothing.

import type { FieldError } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import type { Api } from './edge-api.ts'
import type { Paint } from './terminal-text.ts'

/** With `value` a flag takes one, and help calls it that; without, it is a switch. `many`: it may be given several times. */
export type Flag = {
  readonly value?: string
  readonly many?: true
  readonly short?: string
  readonly what: string
}
type Flags = Readonly<Record<string, Flag>>
/** By name, in order; a name that ends in `?` may be left out. */
type Arguments = Readonly<Record<string, string>>

type ArgumentValues<A> = {
  readonly [K in keyof A as K extends `${infer N}?` ? N : K]: K extends `${string}?`
    ? string | undefined
    : string
}
type FlagValues<F> = {
  readonly [K in keyof F]: F[K] extends { readonly many: true }
    ? readonly string[]
    : F[K] extends { readonly value: string }
      ? string | undefined
      : boolean
}

export type Given<A = Record<never, never>, F = Record<never, never>> = {
  readonly args: ArgumentValues<A>
  readonly flags: FlagValues<F>
  /** Carries the key that the command needs. */
  readonly api: Api
  readonly tenant: () => string
  readonly paint: Paint
  /** For a command that goes on until it is interrupted. */
  readonly live: () => Live
  /** Somebody reads what is printed, as it comes. */
  readonly terminal: boolean
}

/** `tell` prints one thing at once, as a line of JSON where JSON is wanted; `note` says what is not part of the output. */
export type Live = {
  readonly tell: (json: unknown, text: string) => void
  readonly note: (text: string) => void
  readonly until: AbortSignal
}

/** What a command has to say. `ok: false` is an answer too: a call that was denied, a bundle that is not verified. Both exit by it. */
export type Output = {
  readonly ok: boolean
  readonly json: unknown
  readonly text: string
  readonly raw?: Uint8Array
}

/** Where everything was printed as it came. */
export const toldAlready = (ok: boolean): Output => ({ ok, json: null, text: '', raw: new Uint8Array() })

/** Why there is no answer: refused by the edge or the machine (1), or asked for wrongly (2). */
export type Trouble = {
  readonly exit: 1 | 2
  readonly code: string
  readonly detail: string
  readonly todo?: string | undefined
  readonly errors?: readonly FieldError[] | undefined
}
export const usage = (detail: string): Trouble => ({ exit: 2, code: 'usage', detail })
export const trouble = (code: string, detail: string, todo?: string): Trouble => ({
  exit: 1,
  code,
  detail,
  todo,
})

export type Answer = Promise<Result<Output, Trouble>>

type Shape<A, F> = {
  readonly words: readonly [string, ...string[]]
  readonly args: A
  readonly flags: F
  readonly does: string
  /** Whose key it sends; `either` is an operator's where there is one. What is offline needs no edge at all. */
  readonly key: 'agent' | 'operator' | 'either' | 'installation' | 'none' | 'offline'
  /** What 0 and 1 mean, where that is more than done and refused. */
  readonly exits?: string
  readonly examples?: readonly string[]
  readonly run: (given: Given<A, F>) => Answer
}

/** A command whose arguments and flags are known by value only: what the table, help and the parser work with. */
export type Command = Omit<Shape<Arguments, Flags>, 'run'> & {
  readonly run: (
    given: Omit<Given, 'args' | 'flags'> & { readonly args: Values; readonly flags: Values },
  ) => Answer
}
export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/** Types a command by its own arguments and flags. The parser fills them by the same table, so that the two can't differ. */
export const command = <const A extends Arguments, const F extends Flags>(shape: Shape<A, F>): Command =>
  shape as unknown as Command // see above
