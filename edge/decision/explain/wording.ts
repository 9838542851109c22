// The words and JSON of an explanation for an agent or an operator. This file withholds what an
// agent may not know: names of others and of groups, and texts of policies. Pure.

import { LIMITS } from '../../../shared/limits.ts'
import type { Change, FactValue, Op } from '../../../shared/wire/explanation.ts'
import type { CedarValueJson } from '../../policy/engine.ts'
import { idOf } from '../../policy/slices.ts'
import type { Redaction } from '../../secrets/redaction.ts'
import type { ApprovalContext } from '../approval-context.ts'
import type { Fact, Flip, Question } from './facts.ts'
import { changedBy, GROUPS, nameOf, rank, sameFact, valueAt } from './facts.ts'

export type Reader = {
  readonly kind: 'agent' | 'operator'
  /** Its marks don't distinguish secrets. An agent does not even learn that there is one. */
  readonly redaction: Redaction
  /** Whether a text contains a name that an agent may not learn. */
  readonly names: (text: string) => boolean
  /** The parts of the plan that follow from the arguments. */
  readonly byArguments: readonly string[]
  /** The most that humans could answer, everybody's approval first. More needs more approvers. */
  readonly reach: () => readonly [ApprovalContext, ...ApprovalContext[]]
}

export function changeFor(question: Question, flip: Flip, reader: Reader): Change {
  const { fact, op } = flip
  const shown = (whole: CedarValueJson | undefined): { value?: FactValue } => {
    const value = whole === undefined ? undefined : shortened(whole)
    const one = value === undefined ? undefined : shownValue(fact, value, reader.redaction)
    const untold =
      reader.kind === 'agent' &&
      value !== undefined &&
      (isHidden(fact, value, reader.redaction) || !harmless(fact, one, reader.names))
    return one === undefined || untold ? {} : { value: one }
  }
  const knows = reader.kind === 'agent' && fact[0] === 'args' // an agent knows what it sent
  const { value: is } = knows ? {} : shown(presentOf(question, fact))
  const needs = { op, ...shown(flip.value) }
  return {
    fact: nameOf(fact),
    ...(is === undefined ? {} : { is }),
    needs,
    by: byWhom(flip, reader),
    words: words(fact, op, needs.value),
  }
}

const presentOf = ({ context, entities, principal }: Question, fact: Fact): CedarValueJson | undefined =>
  sameFact(fact, GROUPS)
    ? entities
        .filter(({ uid }) => idOf(uid).id === principal.id)
        .flatMap(({ parents }) => parents.map((parent) => idOf(parent).id))
    : valueAt(context, fact)

export function byWhom({ fact, sample }: Flip, { byArguments, reach }: Reader): Change['by'] {
  if (byArguments.includes(nameOf(fact))) return 'agent'
  if (fact[0] !== 'approval') return changedBy(fact) ?? 'operator'
  const most = valueAt(reach()[0], fact.slice(1))
  const within = Array.isArray(most)
    ? most.some((item) => item === sample)
    : typeof sample !== 'number' || sample <= (rank(most) ?? sample)
  return within ? 'human' : 'operator'
}

/** Whether an agent may see a value: not a text, or one of its own call that names nobody else. */
function harmless(
  [first = '']: Fact,
  value: FactValue | undefined,
  names: (text: string) => boolean,
): boolean {
  const texts = [value].flat().filter((item) => typeof item === 'string')
  return texts.length === 0 || (['args', 'plan', 'now'].includes(first) && !texts.some(names))
}

const isHidden = (fact: Fact, value: CedarValueJson, redaction: Redaction): boolean =>
  secretNames(fact).some((name) => JSON.stringify(redaction.of(value, name)) !== JSON.stringify(value))

/** Names that can mark a value as secret: only those of arguments, because we chose all others. */
const secretNames = (fact: Fact): readonly string[] => (fact[0] === 'args' ? fact : [''])

/** The most items of a list that are shown. */
const LISTED = 12

/**
 * Replaces a long text whole: a cut could leave half of a secret, which redaction would not
 * recognise.
 */
function shortened(value: CedarValueJson): CedarValueJson {
  if (Array.isArray(value)) return value.slice(0, LISTED).map(shortened)
  const chars =
    typeof value === 'string' ? value.length : typeof value === 'object' ? JSON.stringify(value).length : 0
  return chars > LIMITS.explanation_read_chars ? `«${chars} characters»` : value
}

function shownValue(fact: Fact, value: CedarValueJson, redaction: Redaction): FactValue {
  const plain = rank(value) === undefined || isTime(value) ? value : rank(value)
  const shown = secretNames(fact).reduce<unknown>(
    (rest, name) => (rest === plain ? redaction.of(plain, name) : rest),
    plain,
  )
  const short = (text: string): string =>
    text.length <= LIMITS.explanation_chars
      ? text
      : `${text.slice(0, LIMITS.explanation_chars).toWellFormed()}…`
  const scalar = (item: unknown): FactValue | undefined =>
    typeof item === 'string'
      ? short(item)
      : typeof item === 'number' || typeof item === 'boolean'
        ? item
        : undefined
  if (Array.isArray(shown)) {
    const items = shown.map(scalar)
    if (
      items.every((item) => typeof item === 'string' || typeof item === 'number' || typeof item === 'boolean')
    )
      return items
  }
  return scalar(shown) ?? (isTime(value) ? timeOf(value) : short(JSON.stringify(shown)))
}

const isTime = (value: CedarValueJson): boolean =>
  typeof value === 'object' && rank(value) !== undefined && JSON.stringify(value).includes('"datetime"')
const timeOf = (value: CedarValueJson): string => new Date(rank(value) ?? 0).toISOString()

const SIGNS: Readonly<Record<Op, string>> = {
  '==': '=',
  '!=': '≠',
  '<': '<',
  '<=': '≤',
  '>': '>',
  '>=': '≥',
  has: 'with',
  lacks: 'without',
  like: 'like',
  'not like': 'not like',
  present: 'given',
  absent: 'left out',
  empty: 'empty',
  'not empty': 'not empty',
}

/** An undefined `value` is withheld if `op` takes one. */
function words(fact: Fact, op: Op, value: FactValue | undefined): string {
  const name = nameOf(fact)
  const shown = value === undefined ? undefined : typeof value === 'string' ? `\`${value}\`` : String(value)
  const others = name.startsWith('approval.independent') ? ', without the agent’s owners' : ''
  switch (name) {
    case 'approval.count':
      return value === 1
        ? 'an approval'
        : `approval.count ${SIGNS[op]} ${shown}: ${shown} different approvers`
    case 'approval.independent.count':
      return `${value === 1 ? 'an approval by somebody' : `${shown} approvals by people`} other than the agent’s owners`
    case 'approval.roles':
    case 'approval.independent.roles':
      return `an approval by somebody in ${shown === undefined ? 'a certain role' : `the role ${shown}`}${others}`
    case 'approval.quorum':
    case 'approval.independent.quorum':
      return `${shown === undefined ? 'approvals by people in a certain role' : `approvals by ${shown}`}${others}`
    case 'approval.approvers':
      return `an approval by ${shown ?? 'the person whom policy requires'}`
    case 'approval.assurance':
      return `an approval with a stronger assurance${shown === undefined ? '' : `: ${shown}`}`
    case 'agent.groups':
      return `the agent ${op === 'has' ? 'in' : 'not in'} ${shown === undefined ? 'a certain group' : `the group ${shown}`}`
    case 'is_allowlisted_tool':
      return 'the tool on the agent’s allowlist'
    case 'folder_met_secret':
      return 'a new run, whose folder has held no secret'
    case 'is_allowed_channel':
      return 'a channel that the agent may call from'
    default:
      if (['present', 'absent', 'empty', 'not empty'].includes(op)) return `${name} ${SIGNS[op]}`
      return shown === undefined
        ? `another value of ${name}; an operator can see which`
        : `${name} ${SIGNS[op]} ${shown}`
  }
}
