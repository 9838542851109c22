// Runs the checks in order against one target. An approval that a check leaves waiting serves the
// next one.

import { ANSWERING } from './answering.ts'
import type { Ask, Check, Settings, Target } from './check.ts'
import { SHOWING } from './showing.ts'
import { TAMPERING } from './tampering.ts'

export const CHECKS: readonly Check[] = [...SHOWING, ...TAMPERING, ...ANSWERING]

type Outcome = 'kept' | 'broken' | 'not run'
export type Finding = {
  readonly name: string
  readonly promise: string
  readonly outcome: Outcome
  readonly saw: readonly string[]
}

export const DEFAULTS: Settings = {
  approve: ['decision', 'approve'],
  deny: ['decision', 'deny'],
  posts: 1_000,
  mutations: 10_000,
  seed: 1,
  life_s: 2,
}

export async function conform(
  target: Target,
  settings: Settings,
  heard: (finding: Finding) => void = () => undefined,
): Promise<Finding[]> {
  const waiting: Ask[] = []
  const findings: Finding[] = []
  /** One that still waits, or a new one. */
  const next = async (): Promise<Ask | undefined> => {
    for (let ask = waiting.pop(); ask !== undefined; ask = waiting.pop())
      if ((await ask.look()).status === 'pending') return ask
    return target.open()
  }
  for (const check of CHECKS) {
    const ask = check.needs === 'short-lived' ? await target.open(settings.life_s) : await next()
    const other = check.needs === 'two' ? await next() : undefined
    const finding = await runCheck(check, settings, ask, other)
    for (const one of [ask, other]) if (one !== undefined && check.needs !== 'short-lived') waiting.push(one)
    findings.push(finding)
    heard(finding)
  }
  return findings
}

async function runCheck(
  check: Check,
  settings: Settings,
  ask: Ask | undefined,
  other: Ask | undefined,
): Promise<Finding> {
  const { name, promise } = check
  if (ask === undefined || (check.needs === 'two' && other === undefined))
    return { name, promise, outcome: 'not run', saw: ['no approval was left for this check'] }
  try {
    const saw =
      check.needs === 'two' && other !== undefined
        ? await check.run(ask, settings, other)
        : await check.run(ask, settings, ask)
    return { name, promise, outcome: saw.length === 0 ? 'kept' : 'broken', saw }
  } catch (error) {
    // A server that hangs or breaks the connection keeps no promise.
    return {
      name,
      promise,
      outcome: 'broken',
      saw: [`no answer: ${error instanceof Error ? error.message : String(error)}`],
    }
  }
}
