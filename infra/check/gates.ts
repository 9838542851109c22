// `npm run check`: runs every gate, prints a line for each and what a failing one said, and exits 1
// if one failed. Each gate is a command that can be run alone; this file checks nothing itself.

import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { delimiter, join } from 'node:path'

type Gate = { readonly name: string; readonly argv: readonly [string, ...string[]] }
type Verdict = { readonly passed: boolean; readonly said: string; readonly ms: number }

/** The slowest first, so that the others fit beside them. */
const GATES: readonly Gate[] = [
  { name: 'unused', argv: ['knip', '--no-progress', '--treat-config-hints-as-errors'] },
  { name: 'types (edge)', argv: ['tsc', '-p', 'edge', '--pretty', 'false'] },
  { name: 'types (node)', argv: ['tsc', '-p', '.', '--pretty', 'false'] },
  { name: 'format and lint', argv: ['biome', 'check', '--error-on-warnings', '--max-diagnostics=50', '.'] },
  { name: 'imports', argv: ['node', 'infra/check/imports.ts'] },
  { name: 'attacks', argv: ['node', 'infra/check/attacks.ts'] },
  { name: 'duplicates', argv: ['jscpd', '.'] },
  { name: 'text', argv: ['node', 'infra/check/text.ts'] },
  { name: 'drawing', argv: ['node', 'infra/check/graph.ts'] },
  { name: 'changes', argv: ['node', 'infra/check/changes.ts'] },
  { name: 'plain English', argv: ['node', 'infra/check/plain-english.ts'] },
]

/** Even beside other work no gate needs longer; one that hangs must not hang the commit. */
const TIMEOUT_MS = 300_000

const root = join(import.meta.dirname, '..', '..')
const env = {
  ...process.env,
  PATH: [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter),
}

function run({ argv: [command, ...args] }: Gate): Promise<Verdict> {
  const started = performance.now()
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    const child = spawn(command, args, {
      cwd: root,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
    })
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => chunks.push(chunk))
    const end = (passed: boolean, why: string) =>
      resolve({
        passed,
        said: `${Buffer.concat(chunks).toString('utf8')}${why}`,
        ms: performance.now() - started,
      })
    child.on('error', (error) =>
      end(false, `\`${command}\` does not start: ${error.message}; run \`npm ci\``),
    )
    child.on('close', (code, signal) =>
      end(code === 0, signal === null ? '' : `\nended by ${signal} after ${TIMEOUT_MS / 1000} s at most`),
    )
  })
}

const failed: string[] = []
const waiting = [...GATES]
const lane = async (): Promise<void> => {
  for (let gate = waiting.shift(); gate !== undefined; gate = waiting.shift()) {
    const { passed, said, ms } = await run(gate)
    console.log(
      `${passed ? 'passed' : 'FAILED'}  ${gate.name.padEnd(16)} ${(ms / 1000).toFixed(1).padStart(5)} s`,
    )
    if (passed) continue
    failed.push(gate.name)
    console.log(`        ${gate.argv.join(' ')}\n${said.trimEnd().replace(/^/gm, '        ')}`)
  }
}

const started = performance.now()
await Promise.all(Array.from({ length: Math.min(availableParallelism(), GATES.length) }, lane))
const seconds = ((performance.now() - started) / 1000).toFixed(1)
console.log(
  failed.length === 0
    ? `all ${GATES.length} gates passed in ${seconds} s`
    : `failed in ${seconds} s: ${failed.join(', ')}`,
)
process.exitCode = failed.length === 0 ? 0 : 1
