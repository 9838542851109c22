// The demo's terminal: commands with their output, requests, explanations, and checks that stop the
// demo where the product does not do what the demo claims.

import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { wantsColour } from '../../cli/shell/config.ts'
import { inert, paint } from '../../cli/shell/terminal-text.ts'
import type { Stack } from '../stack.ts'
import { ROOT } from '../state.ts'

const { bold, bad, ...brushes } = paint(wantsColour(process.stdout.isTTY))
export const { dim, good } = brushes
const COMMAND_MS = 60_000

/** Ends the demo with an error if a step did not do what it claims. */
export function check(condition: boolean, expected: string): asserts condition {
  if (!condition)
    throw new Error(`the demo expected ${expected}; the output above shows what happened instead`)
}

export const title = (text: string): void => console.log(`\n${bold(text)}\n`)
export const explain = (text: string): void => console.log(`# ${text}`)
/** A command or a request that the demo makes. */
export const echo = (text: string): void => console.log(bold(text))
const coloured = (line: string): string =>
  line.replace(/^verified$/, good).replace(/^NOT VERIFIED$|^ {2}FAIL/, bad)
export const print = (text: string): void =>
  console.log(
    inert(text)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${coloured(line)}`)
      .join('\n'),
  )

/** `witnessKey`: the key by which verifiers know the witness of its log. */
export type OwnStack = { readonly stack: Stack; readonly witnessKey: string }

/**
 * The state folder of the stack and a folder for files. `own`: the stack that the demo started, and
 * removes at the end.
 */
export type DemoStack = {
  readonly state: string
  readonly folder: string
  readonly own: OwnStack | undefined
  readonly key?: string
}

/** Runs `countersign …` and prints the command and its output. */
export function countersign(
  { state, folder, key }: DemoStack,
  ...args: readonly string[]
): { readonly code: number | null; readonly out: string } {
  echo(`$ countersign ${args.map((arg) => (/[^\w./:=-]/.test(arg) ? `'${arg}'` : arg)).join(' ')}`)
  const ran = spawnSync(process.execPath, [join(ROOT, 'cli/main.ts'), ...args], {
    cwd: folder,
    env: {
      PATH: '/usr/bin:/bin',
      COUNTERSIGN_STATE: state,
      XDG_CONFIG_HOME: folder,
      XDG_STATE_HOME: folder,
      ...COMPILE_CACHE,
      ...(key === undefined ? {} : { COUNTERSIGN_KEY: key }),
    },
    encoding: 'utf8',
    timeout: COMMAND_MS,
  })
  const out = `${ran.stdout}${ran.stderr}`
  print(out)
  return { code: ran.status, out }
}

/** The compiled modules of infra/bootstrap.mjs, with which a command starts in half the time. */
export const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/countersign/compiled') }

export function match(text: string, pattern: RegExp, what: string): string {
  const [, first] = pattern.exec(text) ?? []
  check(first !== undefined, what)
  return first
}
export const callIn = (text: string): string => match(text, /\b(call_[0-9A-Z]{26}_\d+)/, 'the id of a call')
