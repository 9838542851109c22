// Runs the official conformance suite against one endpoint, in a separate process, and reads the
// findings of each scenario.

import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export type Revision = '2025-11-25' | '2026-07-28'
type Check = { readonly id: string; readonly status: string; readonly errorMessage?: string }
/** The checks that did not pass, by scenario; the value says why. */
export type Findings = Readonly<Record<string, Readonly<Record<string, string>>>>

const PROGRAM = '@modelcontextprotocol/conformance/dist/index.js'
const FOLDER = /^server-(.*)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/

export async function runSuite(revision: Revision, url: string): Promise<Findings> {
  const program = createRequire(import.meta.url).resolve(PROGRAM)
  const out = mkdtempSync(join(tmpdir(), 'countersign-conformance-'))
  try {
    const printed = await run(program, ['server', '--url', url, '--requirements', revision, '-o', out])
    const folders = readdirSync(out)
    if (folders.length === 0) throw new Error(`the suite ran nothing:\n${printed}`)
    return Object.fromEntries(
      folders.map((folder) => {
        const checks = JSON.parse(readFileSync(join(out, folder, 'checks.json'), 'utf8')) as Check[] // the suite's own file
        return [FOLDER.exec(folder)?.[1] ?? folder, failuresIn(checks)]
      }),
    )
  } finally {
    rmSync(out, { recursive: true, force: true })
  }
}

const FAILED = new Set(['FAILURE', 'WARNING'])

const failuresIn = (checks: readonly Check[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    checks
      .filter(({ status }) => FAILED.has(status))
      .map(({ id, status, errorMessage = '' }) => [id, `${status}: ${errorMessage}`]),
  )

/** Its exit code is ignored: it counts failures that we expect. */
const run = (program: string, args: readonly string[]): Promise<string> =>
  new Promise((done) =>
    execFile(
      process.execPath,
      [program, ...args],
      { cwd: dirname(program), timeout: 90_000 },
      (_, stdout, stderr) => done(stdout + stderr),
    ),
  )
