// A claimed skill call ends with an attestation, even if the edge fails in the middle of it.

import { expect, test, vi } from 'vitest'
import type { Outcome } from '../../../shared/plan/plan.ts'
import { grantIn, SKILL_PLAN, skillBundle } from '../../shared/evidence.ts'

vi.mock('cloudflare:workers', () => ({ RpcTarget: class {} })) // Node has no such module
/** The types of the edge's runtime and of Node can't be loaded into one program. */
const MODULE = '../../../edge/run/skill-calls.ts'
const { executeClaim } = (await import(/* @vite-ignore */ MODULE)) as {
  readonly executeClaim: (env: object, claim: object, signal: AbortSignal) => Promise<{ outcome: Outcome }>
}

const claim = { grant: { ...grantIn(skillBundle()), issued_at_ms: Date.now() + 10_000 }, plan: SKILL_PLAN }
/** No object can be reached through it. */
const UNREACHABLE = {}

test('L5 a claimed call ends as `infra` if the edge can’t check whether its skill is enabled, or fails itself', async () => {
  const signal = new AbortController().signal
  expect((await executeClaim(UNREACHABLE, claim, signal)).outcome).toEqual({
    kind: 'infra',
    detail: 'the edge could not check whether the skill is still enabled',
  })
  const broken = Object.defineProperty(new AbortController().signal, 'aborted', {
    get: () => {
      throw new Error('what nobody thought of')
    },
  })
  expect((await executeClaim(UNREACHABLE, claim, broken)).outcome).toEqual({
    kind: 'infra',
    detail: 'the edge failed: Error: what nobody thought of',
  })
})
