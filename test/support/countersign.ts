// Runs the `countersign` command as a child process with a minimal environment.

import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { ROOT } from '../../infra/state.ts'
import { bundled } from './bundled.ts'

export type CliResult = {
  readonly code: number | null
  readonly out: string
  readonly bytes: Buffer
  readonly err: string
}
export type CliOptions = {
  readonly env?: Readonly<Record<string, string>>
  readonly stdin?: string | Uint8Array
  readonly cwd?: string
}

const LIMIT_MS = 60_000
/**
 * Arguments of Node that start the command. A young generation that begins large saves a sixth of
 * the CPU of a start.
 */
export const CLI = ['--min-semi-space-size=16', await bundled('cli/main.ts')] as const
/**
 * `countersign skill` compiles with engines of WebAssembly, which run for a moment. To optimise them
 * would take 40 % of the CPU of a build.
 */
const BASELINE = '--liftoff-only'
export const CLI_ENV = {
  PATH: '/usr/bin:/bin',
  NODE_COMPILE_CACHE: join(ROOT, 'node_modules/.cache/countersign/compiled'),
}

export function countersign(
  args: readonly string[],
  { env = {}, stdin = '', cwd = ROOT }: CliOptions = {},
): Promise<CliResult> {
  return new Promise((settle, fail) => {
    const flags = args[0] === 'skill' ? [BASELINE] : []
    const child = spawn(process.execPath, [...flags, ...CLI, ...args], {
      cwd,
      env: { ...CLI_ENV, ...env },
      timeout: LIMIT_MS,
      killSignal: 'SIGKILL',
    })
    const out: Buffer[] = []
    const err: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk))
    child.stdin.on('error', () => undefined) // a command that reads no input closes it early
    child.stdin.end(stdin)
    child.once('error', fail)
    child.once('close', (code) =>
      settle({
        code,
        out: Buffer.concat(out).toString('utf8'),
        bytes: Buffer.concat(out),
        err: Buffer.concat(err).toString('utf8'),
      }),
    )
  })
}
