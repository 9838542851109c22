// The `approval` attributes of the Cedar context: those of the answers given, and those with the
// most answers that humans could still give. Pure over a loaded directory. Policy decides what is
// enough.

import type { Assurance } from '../../shared/wire/approvals.ts'
import { atMost, weakestAssurance } from '../approvals/assurance.ts'
import { secondsOf } from '../approvals/standing.ts'
import type { RecordedAnswer } from '../call/lifecycle.ts'
import type { LoadedDirectory, Principal } from '../directory/loaded-directory.ts'
import { idOf } from '../policy/slices.ts'

/** `quorum` has `2 of finance` if two approvers have that role, because Cedar can't count a set. */
type Yes = { count: number; roles: string[]; quorum: string[] }
export type ApprovalContext = Yes & {
  granted: boolean
  approvers: string[]
  /** The weakest `Assurance` of the approvals; `none` without an approval. */
  assurance: string
  /** The longest duration of a standing approval in seconds; 0 if each is for this call only. */
  standing_s: number
  /** The same without the agent's owners: separation of duties. */
  independent: Yes
}

/** The roles of the operators who may answer, by name. */
export type Approvers = ReadonlyMap<string, readonly string[]>

/** The most answers that a statement can hold. */
const MOST = 32

/** The operators who may answer approvals by the current policy, which `may` asks (P09). */
export const approversOf = (
  { operators }: LoadedDirectory,
  may: (operator: Principal) => boolean,
): Approvers =>
  new Map(
    [...operators]
      .filter(([, operator]) => may(operator))
      .map(([name, operator]) => [name, rolesOf(operator)]),
  )

export const rolesOf = ({ entities }: Principal): string[] =>
  (entities[0]?.parents ?? []).map((parent) => idOf(parent).id)

export function givenApprovals(
  approvers: Approvers,
  owners: readonly string[],
  answers: readonly RecordedAnswer[],
): ApprovalContext {
  const yes = yesAmong(approvers, answers)
  const names = yes.map(({ by }) => by)
  return consent(approvers, names, owners, {
    assurance: weakestAssurance(yes.map(({ channel }) => channel)),
    standing_s: longest(yes),
  })
}

const yesAmong = (approvers: Approvers, answers: readonly RecordedAnswer[]): RecordedAnswer[] =>
  answers.filter(({ decision, by }) => decision === 'approve' && approvers.has(by))

const longest = (yes: readonly RecordedAnswer[]): number => Math.max(0, ...yes.map(secondsOf))

/**
 * The most that humans could still answer. Everybody approves, or everybody but the agent's owners,
 * because a rule may require more people or exclude the owners; and with each assurance that is
 * still possible, because a rule may require any. Given answers keep their assurance and duration.
 * If none of these contexts is allowed, no answer can allow the call.
 */
export function possibleApprovals(
  approvers: Approvers,
  owners: readonly string[],
  answers: readonly RecordedAnswer[],
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
