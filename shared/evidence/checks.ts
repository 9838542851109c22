// The result of a check, the checks that nobody can make later, and those that compare a statement with
// its grant and plan: their names, their findings, and the facts that each rule gets.
// The rules are in contradictions.ts, connection-rules.ts and usage-rules.ts.

import type { Plan } from '../plan/plan.ts'
import type { Grant } from './statement.ts'
import { EDGE_EXECUTOR, ISOLATE, UNSTARTED, UPSTREAM_CLIENT } from './statement.ts'

/**
 * `at`: the first fault, as a JSON pointer into the statement. `detail`: advice, if there is any.
 */
export type Check = {
  readonly name: string
  readonly ok: boolean
  readonly at?: string
  readonly detail?: string
}

/**
 * Checks that the edge makes before it grants or countersigns, and that nobody can make later from a bundle
 * and public keys.
 */
export const UNCHECKABLE = [
  'the claim was still held when the worker reported the end: only the edge knew',
  'the output that the worker sent has the digests of the statement: a bundle has no output',
  'each output file was uploaded as the statement names it: a bundle has no files',
  'the policies decide as the facts say: a bundle has their digest, not their text',
  'the worker had proven the tier of the plan: a bundle has no proof of its sandbox',
] as const

/** The name of each check of a statement, as a list of checks shows it. */
export const CHECK_NAMES = {
  subject: 'the subject is this call',
  id: 'the attestation’s id is this call’s',
  facts: 'the facts are those of the grant',
  grant: 'the grant is the edge’s, for this call and worker',
  ending: 'the ending fits the outcome',
  digest: 'the execution digest matches',
  tier: 'it ran where the plan says: in its sandbox, in an isolate of the edge, or at the upstream',
  started: 'profile, command line and output fit whether anything was started',
  counted: 'it had a cgroup if the plan requires one, and only if the worker had proven cgroups',
  limits: 'it ran within the plan’s limits',
  outcome: 'the outcome fits what the execution used, wrote and reached',
  output: 'the output is described consistently, and kept if the plan says so',
  connections: 'connections were allowed only to the plan’s hosts',
  exchange: 'the exchange with the upstream is that of the plan, and fits the outcome',
  times: 'it ran within the time of its grant',
} as const
export type CheckKey = keyof typeof CHECK_NAMES

/** `at`: the field, as a JSON pointer into the statement. */
export type Contradiction = { readonly at: string; readonly what: CheckKey }

export const WITHOUT_SANDBOX = [EDGE_EXECUTOR, ISOLATE, UPSTREAM_CLIENT, UNSTARTED] as const

export type Context = {
  readonly grant: Grant | null
  readonly plan: Plan | null
  readonly now_ms: number | undefined
  readonly who: (typeof WITHOUT_SANDBOX)[number] | 'sandbox'
  /** The statement says that something was started. */
  readonly ran: boolean
  /** The outcome leaves open whether anything was started. */
  readonly unended: boolean
}

/** The edge executes calls of skills and of upstreams itself. */
export const isAtEdge = (who: Context['who']): boolean => who === ISOLATE || who === UPSTREAM_CLIENT

export function* below(path: string, found: Iterable<Contradiction>): Generator<Contradiction> {
  for (const { at, what } of found) yield { at: `${path}${at}`, what }
}
