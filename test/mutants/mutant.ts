// The type of a mutant: one security line, the same line broken, and the tests that must fail. Only
// data; main.ts runs the mutants, and test/infra/mutants.test.ts compares the list with the tree.

import { findOnce, type Span } from '../support/find-in-source.ts'

/** The boundary that a mutant attacks, as in docs/threat-model.md. */
export type Area =
  | 'clients'
  | 'exports'
  | 'json'
  | 'ids'
  | 'signatures'
  | 'evidence'
  | 'policy'
  | 'lifecycle'
  | 'approvals'
  | 'links'
  | 'mcp'
  | 'forms'
  | 'console'
  | 'channels'
  | 'planning'
  | 'redaction'
  | 'secrets'
  | 'workers'
  | 'grants'
  | 'addresses'
  | 'egress'
  | 'sandbox'
  | 'seccomp'
  | 'limits'
  | 'files'
  | 'redis'
  | 'skills'
  | 'tenants'
  | 'tokens'
  | 'upstreams'
  | 'backups'
  | 'runs'
  | 'archives'

/** `gains`: what an attacker would gain if the line were broken in this way. */
export type Line = readonly [text: string, becomes: string, gains: string]

/** Lines of one file that the same tests protect. */
export type Held = {
  readonly area: Area
  readonly file: string
  /** Test files; at least one of their tests must fail. */
  readonly tests: readonly string[]
  /** Runs only the tests of these files whose full title matches. */
  readonly titled?: string
  readonly lines: readonly Line[]
}

/** `text` occurs exactly once in `file`. */
export type Mutant = Omit<Held, 'lines'> & {
  readonly text: string
  readonly becomes: string
  readonly gains: string
}

export const mutantsOf = (held: readonly Held[]): Mutant[] =>
  held.flatMap(({ lines, ...rest }) =>
    lines.map(([text, becomes, gains]) => ({ ...rest, text, becomes, gains })),
  )

/** The position of the mutant's text in its file; undefined unless it occurs exactly once. */
export const spanOf = ({ text }: Pick<Mutant, 'text'>, source: string): Span | undefined =>
  findOnce(text, source)

export const mutated = (mutant: Mutant, source: string): string => {
  const span = spanOf(mutant, source)
  if (span === undefined)
    throw new Error(`${mutant.file} must contain this text exactly once: ${mutant.text}`)
  return `${source.slice(0, span.at)}${mutant.becomes}${source.slice(span.at + span.length)}`
}

export const lineAt = (source: string, offset: number): number => source.slice(0, offset).split('\n').length
