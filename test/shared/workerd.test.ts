// Promise: shared/ gives the same results in workerd as in Node, although their crypto libraries
// and parsers differ.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { type Served, serveModule } from '../support/served-module.ts'
import { answers } from './both.ts'

const ENTRY = (both: string): string => `import { answers } from ${JSON.stringify(both)}
export default { fetch: () => Response.json(answers()) }
`

const folder = mkdtempSync(join(tmpdir(), 'countersign-agreement-'))
let workerd: Served

beforeAll(async () => {
  writeFileSync(join(folder, 'entry.js'), ENTRY(join(import.meta.dirname, 'both.ts')))
  const options = [
    '--bundle',
    '--format=esm',
    '--platform=node',
    '--external:node:*',
    `--outfile=${join(folder, 'main.js')}`,
  ]
  const built = spawnSync(join(ROOT, 'node_modules/.bin/esbuild'), [join(folder, 'entry.js'), ...options], {
    encoding: 'utf8',
  })
  if (built.status !== 0) throw new Error(`esbuild: ${built.error?.message ?? built.stderr}`)
  workerd = await serveModule(folder)
})

afterAll(async () => {
  await workerd?.stop()
  rmSync(folder, { recursive: true, force: true })
})

test('every result of shared/ is the same in Node and in workerd', async () => {
  const here = answers()
  const answer = await fetch(workerd.url)
  expect(answer.status).toBe(200)
  const there = (await answer.json()) as string[] // ENTRY sends it
  expect(here.length).toBeGreaterThan(1_000)
  expect(here).toContain('signed /v1/worker/claims: true')
  expect(here).toContain('signed /v1/worker/claim: false')
  for (const [i, line] of here.entries()) if (there[i] !== line) expect(there[i]).toBe(line) // the first difference, not all of them
  expect(there).toHaveLength(here.length)
})
