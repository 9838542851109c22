// What humans have said of a call, and what they could say at the most, as policies see it. Pure over a loaded directory. It decides
// nothing: whether a yes suffices is policy's to say.

import type { Assurance } from '../../shared/wire/approvals.ts'
import { weakestAssurance, atMost } from '../approvals/assurance.ts'
import { secondsOf } from '../approvals/standing.ts'
import type { Answered } from '../call/lifecycle.ts'
import type { Loaded, Principal } from '../directory/directory.ts'
import { idOf } from '../policy/slices.ts'

/** `quorum` holds `2 of finance` where two of those who said yes have the role: Cedar can't count the members of a set. */
type Yes = { count: number; roles: string[]; quorum: string[] }
export type ApprovalContext = Yes & {
  granted: boolean
  approvers: string[]
  /** How surely it was they: an `Assurance`, or `none` where nobody has said yes. */
  assurance: string
  /** For how long the longest-lived yes was given; 0 where each was given to this call alone. */
  standing_s: number
  /** The same without those who own the agent: separation of duties. */
  independent: Yes
}

/** Roles by name, of those whose word counts. */
export type Approvers = ReadonlyMap<string, readonly string[]>

/** As many answers as a statement holds. */
const MOST = 32

/** Those who may answer approvals, by the policy of now (P09). `may` asks it. */
export const approversOf = ({ operators }: Loaded, may: (operator: Principal) => boolean): Approvers =>
  new Map(
    [...operators]
      .filter(([, operator]) => may(operator))
      .map(([name, operator]) => [name, rolesOf(operator)]),
  )

export const rolesOf = ({ entities }: Principal): string[] =>
  (entities[0]?.parents ?? []).map((parent) => idOf(parent).id)

export function given(
  approvers: Approvers,
  owners: readonly string[],
  answers: readonly Answered[],
): ApprovalContext {
  const yes = yesAmong(approvers, answers)
  const names = yes.map(({ by }) => by)
  return consent(approvers, names, owners, {
    assurance: weakestAssurance(yes.map(({ channel }) => channel)),
    standing_s: longest(yes),
  })
}

const yesAmong = (approvers: Approvers, answers: readonly Answered[]): Answered[] =>
  answers.filter(({ decision, by }) => decision === 'approve' && approvers.has(by))

const longest = (yes: readonly Answered[]): number => Math.max(0, ...yes.map(secondsOf))

/**
 * The most that humans could still say: everybody yes, or everybody but the agent's owners, for a rule may want more voices or none of
 * theirs; in each way that they may still answer in, for a rule may want any. What was said stays said, as it was said, and stands for as
 * long as it does. If none of it allows it, nobody can.
 */
export function supposed(
  approvers: Approvers,
  owners: readonly string[],
  answers: readonly Answered[],
): [ApprovalContext, ...ApprovalContext[]] {
  const said = new Set(answers.map(({ by }) => by))
  const all = [...approvers.keys()]
  const others = all.filter((name) => said.has(name) || !owners.includes(name))
  const ways = atMost(weakestAssurance(yesAmong(approvers, answers).map(({ channel }) => channel)))
  const standing_s = longest(answers.filter(({ decision }) => decision === 'approve'))
  const of = (names: readonly string[], assurance: Assurance) =>
    consent(approvers, names, owners, { assurance, standing_s })
  const groups = others.length > 0 && others.length < all.length ? [all, others] : [all]
  const [most = of(all, 'link'), ...less] = ways.flatMap((way) => groups.map((names) => of(names, way)))
  return [most, ...less]
}

type Manner = Pick<ApprovalContext, 'assurance' | 'standing_s'>

function consent(
  approvers: Approvers,
  names: readonly string[],
  owners: readonly string[],
  { assurance, standing_s }: Manner,
): ApprovalContext {
  const independent = names.filter((name) => !owners.includes(name))
  return {
    granted: names.length > 0,
    ...yesOf(approvers, names),
    approvers: [...names],
    assurance: names.length > 0 ? assurance : 'none',
    standing_s,
    independent: yesOf(approvers, independent),
  }
}

function yesOf(approvers: Approvers, names: readonly string[]): Yes {
  const holders = new Map<string, number>()
  for (const role of names.flatMap((name) => approvers.get(name) ?? []))
    holders.set(role, (holders.get(role) ?? 0) + 1)
  const quorum = [...holders].flatMap(([role, n]) =>
    Array.from({ length: Math.min(n, MOST) }, (_, i) => `${i + 1} of ${role}`),
  )
  return { count: Math.min(names.length, MOST), roles: [...holders.keys()], quorum }
}
