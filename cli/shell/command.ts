// The type of a command: its words, arguments and flags, the key that it sends and what it does.
// Help, the parser and `main` all work from this type.

import type { FieldError } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import type { Api } from './edge-api.ts'
import type { Paint } from './terminal-text.ts'

/**
 * A flag with `value` takes a value, which help calls by that word; without, it is a switch.
 * `many`: it may be repeated.
 */
export type Flag = {
  readonly value?: string
  readonly many?: true
  readonly short?: string
  readonly what: string
}
type Flags = Readonly<Record<string, Flag>>
/** Positional arguments, in order, each with its help text. A name that ends in `?` is optional. */
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

export type CommandContext<A = Record<never, never>, F = Record<never, never>> = {
  readonly args: ArgumentValues<A>
  readonly flags: FlagValues<F>
  /** Everything after `--`, for a command that takes a command line. */
  readonly rest: readonly string[]
  /** Sends the key that the command needs. */
  readonly api: Api
  /** For a command that speaks another protocol with the edge. */
  readonly connection: () => { readonly url: string; readonly key: string }
  /** Sends the operator's key of the state folder, for a command of an agent; undefined without one. */
  readonly operatorApi: () => Api | undefined
  readonly tenant: () => string
  readonly paint: Paint
  /** For a command that runs until it is interrupted. */
  readonly live: () => Live
  /** Standard output is a terminal, and the output is text, not JSON. */
  readonly terminal: boolean
}

/**
 * `tell` prints one item immediately, with `--json` as one line of JSON; `note` writes to standard
 * error.
 */
export type Live = {
  readonly tell: (json: unknown, text: string) => void
  readonly note: (text: string) => void
  readonly until: AbortSignal
}

/**
 * The output of a command that got an answer. `ok: false` is an answer too (a call was denied, a
 * bundle is not verified) and makes the exit code 1.
 */
export type CommandOutput = {
  readonly ok: boolean
  readonly json: unknown
  readonly text: string
  readonly raw?: Uint8Array
}

/** The result of a command that has already printed everything through `Live`. */
export const alreadyPrinted = (ok: boolean): CommandOutput => ({
  ok,
  json: null,
  text: '',
  raw: new Uint8Array(),
})

/**
 * Why a command got no answer: the edge or this machine refused it (1), or its usage was wrong (2).
 */
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

export type CommandResult = Promise<Result<CommandOutput, Trouble>>

type Shape<A, F> = {
  readonly words: readonly [string, ...string[]]
  readonly args: A
  readonly flags: F
  /** The help text of the command line that follows after `--`; absent if it takes none. */
  readonly rest?: string
  readonly does: string
  /**
   * The kind of key to send; `either` prefers an operator's. An `offline` command needs no edge.
   */
  readonly key: 'agent' | 'operator' | 'either' | 'installation' | 'none' | 'offline'
  /** The kind of key to send if an argument is given, if it differs from `key`. */
  readonly keyForArgument?: 'installation' | 'offline'
  /** The meaning of exit codes 0 and 1, if not simply "done" and "refused or failed". */
  readonly exits?: string
  readonly examples?: readonly string[]
  readonly run: (given: CommandContext<A, F>) => CommandResult
}

/**
 * A command without the types of its arguments and flags: what the table, help and the parser use.
 */
export type Command = Omit<Shape<Arguments, Flags>, 'run'> & {
  readonly run: (
    given: Omit<CommandContext, 'args' | 'flags'> & { readonly args: Values; readonly flags: Values },
  ) => CommandResult
}
export type Values = Readonly<Record<string, string | boolean | readonly string[] | undefined>>

/**
 * Types `run` by the command's own tables of arguments and flags. The parser fills them from the
 * same tables.
 */
export const command = <const A extends Arguments, const F extends Flags>(shape: Shape<A, F>): Command =>
  shape as unknown as Command // see above
