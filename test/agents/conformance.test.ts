// Promise: the edge passes the official conformance suite of MCP in both revisions, for its own tools
// and in front of a protected server, except for what the baseline lists with a reason.

import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Stack } from '../../infra/stack.ts'
import { Fixtures } from '../support/fixtures.ts'
import { startTestStack } from '../support/stack/stack.ts'
import { expectedOf, type Target } from './conformance/baseline.ts'
import { type Findings, type Revision, runSuite } from './conformance/suite.ts'
import { ConformanceTarget } from './conformance/target.ts'

const RUNS = [
  ['own tools', '2025-11-25'],
  ['own tools', '2026-07-28'],
  ['protected server', '2025-11-25'],
  ['protected server', '2026-07-28'],
] as const

let stack: Stack
let fixtures: Fixtures
const targets: ConformanceTarget[] = []
/** They run at the same time, because the suite mostly waits. */
const runs = new Map<string, Promise<Findings>>()
beforeAll(async () => {
  stack = await startTestStack({ loopbackChannels: true })
  fixtures = new Fixtures('suite', stack.dev)
  for (const [target, revision] of RUNS) {
    const run = runOn(target, revision)
    run.catch(() => undefined) // its test reports it
    runs.set(`${target} ${revision}`, run)
  }
})
/** Runs the suite for an agent of its own, because equal calls of one agent are one call. */
async function runOn(target: Target, revision: Revision): Promise<Findings> {
  const opened = await (target === 'own tools'
    ? ConformanceTarget.native(fixtures)
    : ConformanceTarget.protecting(fixtures, revision === '2025-11-25' ? 'legacy' : 'modern'))
  targets.push(opened)
  return runSuite(revision, opened.url)
}
afterAll(async () => {
  await Promise.all(targets.map((target) => target.close()))
  await stack?.stop()
})

/** The checks that did not pass; those that nobody expects say why. */
function failuresOf(found: Findings, expected: ReturnType<typeof expectedOf>) {
  const failures = Object.entries(found).map(([scenario, checks]): [string, string[]] => [
    scenario,
    Object.entries(checks)
      .map(([check, why]) => (expected[scenario]?.includes(check) ? check : `${check}: ${why}`))
      .sort(),
  ])
  return Object.fromEntries(failures)
}

test.each(RUNS)('%s pass the conformance suite of %s, except for the baseline', async (target, revision) => {
  const name = `${target} ${revision}`
  const expected = expectedOf(revision, target)
  let failures = failuresOf((await runs.get(name)) ?? {}, expected)
  // The suite waits 600 ms for some answers, which is too short while all runs share a busy machine.
  if (!isDeepStrictEqual(failures, expected)) {
    await Promise.allSettled(runs.values())
    failures = failuresOf(await runOn(target, revision), expected)
  }
  expect(failures).toEqual(expected)
})
