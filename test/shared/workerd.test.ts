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
import { VECTORS } from './vectors/frozen-vectors.ts'

/** It answers a POST with the verdicts on the vectors in the body. */
const ENTRY = (folder: string): string => `import { answers } from ${JSON.stringify(join(folder, 'both.ts'))}
import { firstFailure } from ${JSON.stringify(join(folder, 'vectors/verdicts.ts'))}
export default {
  fetch: async (request) =>
    Response.json(
      request.method === 'POST'
        ? (await request.json()).map(({ bundle, keys }) => firstFailure(bundle, keys))
        : answers(),
    ),
}
`

const folder = mkdtempSync(join(tmpdir(), 'countersign-agreement-'))
let workerd: Served

beforeAll(async () => {
  writeFileSync(join(folder, 'entry.js'), ENTRY(import.meta.dirname))
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

test('T02 J01 our verifier judges every vector of evidence in workerd as it is labelled', async () => {
  const answer = await fetch(workerd.url, { method: 'POST', body: JSON.stringify(VECTORS) })
  const verdicts = (await answer.json()) as (string | null)[] // ENTRY sends it
  expect(VECTORS.map(({ name }, i) => [name, verdicts[i]])).toEqual(
    VECTORS.map(({ name, fails }) => [name, fails]),
  )
})
