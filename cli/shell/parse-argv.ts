// Parses argv into one command with its arguments and flags, or into a usage error that suggests
// what was probably meant. Pure.

import { parseArgs } from 'node:util'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Command, Flag, Trouble, Values } from './command.ts'
import { usage } from './command.ts'

export type ParsedCommandLine =
  | {
      readonly kind: 'run'
      readonly command: Command
      readonly args: Values
      readonly flags: Values
      readonly rest: readonly string[]
      readonly json: boolean
    }
  /**
   * Help on some commands: requested (`asked`), or shown because the words name no single command.
   */
  | { readonly kind: 'help'; readonly commands: readonly Command[]; readonly asked: boolean }

export const COMMON_FLAGS = {
  json: { what: 'print the answer as one JSON document' },
  help: { short: 'h', what: 'show this help' },
} as const satisfies Record<string, Flag>

/**
 * An API key anywhere in an argument, where other processes can see it. The error does not repeat
 * it.
 */
const KEY = /cs_(?:agent|operator|enrol)_[a-z0-9-]+_[0-9A-Z]{26}_[0-9A-Z]+/

export function parse(
  argv: readonly string[],
  commands: readonly Command[],
): Result<ParsedCommandLine, Trouble> {
  if (argv.some((arg) => KEY.test(arg) || /^--?(?:api-?)?key(?:=|$)/.test(arg))) {
    return err(
      usage(
        'a key on the command line can be read by every process on this machine; set COUNTERSIGN_KEY instead',
      ),
    )
  }
  const [own, rest] = splitAt(argv, '--')
  const words = own.filter((arg) => arg !== '--json' && arg !== '--help' && arg !== '-h')
  const asksHelp =
    words[0] === 'help' || (own.length > words.length && own.some((arg) => arg === '--help' || arg === '-h'))
  if (words[0] === 'help') words.shift()
  const named = commands.filter((command) => beginsWith(words, command.words))
  const [command] = named
  if (command === undefined) return helpOrError(words, commands, asksHelp)
  if (asksHelp) return ok({ kind: 'help', commands: named, asked: true })
  return command.rest === undefined
    ? readArgumentsAndFlags(command, argv, [])
    : readArgumentsAndFlags(command, own, rest)
}

/** The parts before and after the first `mark`. */
function splitAt(argv: readonly string[], mark: string): readonly [string[], string[]] {
  const at = argv.indexOf(mark)
  return at < 0 ? [[...argv], []] : [argv.slice(0, at), argv.slice(at + 1)]
}

const beginsWith = (words: readonly string[], start: readonly string[]): boolean =>
  start.every((word, i) => words[i] === word)

function helpOrError(
  words: readonly string[],
  commands: readonly Command[],
  asked: boolean,
): Result<ParsedCommandLine, Trouble> {
  const [first, second] = words
  if (first === undefined) return ok({ kind: 'help', commands, asked })
  const group = commands.filter(({ words: [head] }) => head === first)
  if (group.length === 0)
    return err(
      usage(
        `there is no command \`${first}\`${suggestion(
          first,
          commands.map((command) => command.words[0]),
        )}`,
      ),
    )
  if (second === undefined || second.startsWith('-')) return ok({ kind: 'help', commands: group, asked })
  const within = group.filter(({ words: [, next, third] }) => next === second && third !== undefined)
  if (within.length > 0) return ok({ kind: 'help', commands: within, asked })
  const seconds = group.flatMap((command) => command.words[1] ?? [])
  return err(
    usage(
      `there is no command \`${first} ${second}\`${suggestion(second, seconds, `${first} `)}; \`${first}\` has ${seconds.map((word) => `\`${word}\``).join(', ')}`,
    ),
  )
}

function readArgumentsAndFlags(
  command: Command,
  argv: readonly string[],
  rest: readonly string[],
): Result<ParsedCommandLine, Trouble> {
  const flags: Readonly<Record<string, Flag>> = { ...command.flags, ...COMMON_FLAGS }
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(flags).map(([name, { value, short }]) => [
        name,
        {
          type: value === undefined ? ('boolean' as const) : ('string' as const),
          ...(short === undefined ? {} : { short }),
        },
      ]),
    ),
    allowPositionals: true,
    strict: false, // our own errors suggest what was meant
    tokens: true,
  })
  const values = new Map<string, string | boolean | readonly string[]>()
  const positionals: string[] = []
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue } = token
    const flag = Object.hasOwn(flags, name) ? flags[name] : undefined
    if (flag === undefined) {
      const hint = rawName.startsWith('--')
        ? suggestion(name, Object.keys(flags), '--')
        : '; write `--` before an argument that begins with `-`'
      return err(usage(`\`${command.words.join(' ')}\` has no flag \`${rawName}\`${hint}`))
    }
    if (values.has(name) && flag.many !== true)
      return err(usage(`\`${rawName}\` is given twice; give it once`))
    if (flag.value === undefined && value !== undefined) return err(usage(`\`${rawName}\` takes no value`))
    // A forgotten value must not swallow the next flag. A value that begins with `--` is written
    // after `=`.
    if (flag.value !== undefined && (value === undefined || (!inlineValue && value.startsWith('--')))) {
      return err(usage(`\`${rawName}\` needs a value: ${rawName} ${flag.value}`))
    }
    const before = values.get(name)
    values.set(
      name,
      flag.many === true ? [...(typeof before === 'object' ? before : []), value ?? ''] : (value ?? true),
    )
  }
  const args = nameArguments(command, positionals.slice(command.words.length))
  if (!args.ok) return args
  const given = Object.fromEntries(
    Object.entries(command.flags).map(([name, flag]) => [name, values.get(name) ?? absentValue(flag)]),
  )
  return ok({ kind: 'run', command, args: args.value, flags: given, rest, json: values.has('json') })
}

const absentValue = ({ value, many }: Flag) => (many === true ? [] : value === undefined ? false : undefined)

function nameArguments(command: Command, given: readonly string[]): Result<Values, Trouble> {
  const names = Object.keys(command.args)
  const missing = names.slice(given.length).find((name) => !name.endsWith('?'))
  const line = [...command.words, ...names.map(argumentLabel)].join(' ')
  if (missing !== undefined) return err(usage(`\`${missing}\` is missing; usage: countersign ${line}`))
  if (given.length > names.length)
    return err(usage(`unexpected argument \`${given[names.length]}\`; usage: countersign ${line}`))
  return ok(Object.fromEntries(names.map((name, i) => [name.replace('?', ''), given[i]])))
}

export const argumentLabel = (name: string): string => (name.endsWith('?') ? `[${name.slice(0, -1)}]` : name)

/** ` (did you mean …?)` if a known word is close enough, else an empty text. */
function suggestion(word: string, among: readonly string[], before = ''): string {
  const [nearest] = [...new Set(among)]
    .map((name) => ({ name, far: distance(word, name) }))
    .sort((a, b) => a.far - b.far)
  const near = nearest !== undefined && nearest.far <= Math.max(1, Math.floor(nearest.name.length / 3))
  return near ? ` (did you mean \`${before}${nearest.name}\`?)` : ''
}

/**
 * Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
 */
function distance(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) =>
    Array.from({ length: b.length + 1 }, (_, j) => (i === 0 ? j : j === 0 ? i : 0)),
  )
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1
      const swapped =
        a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY
      const row = rows[i]
      if (row !== undefined)
        row[j] = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + same, swapped)
    }
  }
  return at(a.length, b.length)
}
