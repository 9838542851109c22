// What holds and is probably not meant, though no type says so: approvals asked of a role that nobody has, in words that no approval ever
// bears, and policies that can't say why. It judges one set among the operators there are, refuses nothing, and reads conditions as trees.

import type { FieldError } from '../shared/failures.ts'
import { idOf } from './explain/facts.ts'
import { FLOOR } from './policies.ts'
import type { EntityJson, PolicySet, Rule } from './policy.ts'
import { pathOf } from './policy-reads.ts'
import { place } from './policy-text.ts'

type Operator = { readonly entities: readonly EntityJson[] }
/** How many operators have each role. */
type Holders = ReadonlyMap<string, number>

export function probablyUnmeant({ rules }: PolicySet, operators: Iterable<Operator>): FieldError[] {
  const holders = holdersOf(operators)
  return [...rules].flatMap(([id, rule]) =>
    Object.hasOwn(FLOOR, rule.source.file)
      ? []
      : [...unsaid(id, rule), ...asked(rule.applies.conditions).flatMap((one) => unheard(one, rule, holders))],
  )
}

function holdersOf(operators: Iterable<Operator>): Holders {
  const roles = [...operators].flatMap(({ entities }) => entities.flatMap(({ parents }) => parents.map((parent) => idOf(parent).id)))
  return new Map([...Map.groupBy(roles, (role) => role)].map(([role, all]) => [role, all.length]))
}

function unsaid(id: string, { reason, source }: Rule): FieldError[] {
  const named = source.text.includes('@id(')
  const missing = [...(named ? [] : ['`@id`']), ...(reason === null ? ['`@reason`'] : [])]
  if (missing.length === 0) return []
  return [
    {
      at: placeOf(source, 0),
      message: `no ${missing.join(' and no ')}: decisions call this \`${id}\`${reason === null ? ', and say nothing of why' : ''}`,
    },
  ]
}

/** A text that is asked of who approved. */
type Asked = { readonly of: 'quorum' | 'roles'; readonly text: string }

/** Wherever in a condition a list of approvals is held against texts. */
function asked(node: unknown): Asked[] {
  if (typeof node !== 'object' || node === null) return []
  const here = Object.entries(node).flatMap(([op, operands]: [string, unknown]) => {
    if (!['contains', 'containsAny', 'containsAll'].includes(op) || typeof operands !== 'object' || operands === null) return []
    const [first, ...rest] = ('left' in operands ? pathOf(operands.left) : undefined) ?? []
    const of = rest.at(-1)
    if (first !== 'approval' || (of !== 'quorum' && of !== 'roles')) return []
    return ('right' in operands ? textsIn(operands.right) : []).map((text): Asked => ({ of, text }))
  })
  return [...here, ...Object.values(node).flatMap(asked)]
}

export function textsIn(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  if ('Value' in node) return typeof node.Value === 'string' ? [node.Value] : []
  return 'Set' in node && Array.isArray(node.Set) ? node.Set.flatMap(textsIn) : []
}

function unheard({ of, text }: Asked, { source }: Rule, holders: Holders): FieldError[] {
  const at = placeOf(source, Math.max(0, source.text.indexOf(JSON.stringify(text))))
  const [, count = '1', role = text] = /^([1-9][0-9]{0,2}) of (\S.*)$/.exec(of === 'quorum' ? text : '') ?? []
  if (of === 'quorum' && role === text) {
    const [near] = [...holders.keys()].filter((one) => text.toLowerCase().includes(one.toLowerCase())).sort((a, b) => b.length - a.length)
    const number = /[1-9][0-9]{0,2}/.exec(text)?.[0] ?? '2'
    const hint = near === undefined ? 'write the number and the role, such as "2 of finance"' : `did you mean \`${number} of ${near}\`?`
    return [{ at, message: `no approval ever bears \`${text}\`: what asks for it is denied for ever`, hint }]
  }
  const held = holders.get(role) ?? 0
  if (held >= Number(count)) return []
  const who = held === 0 ? 'no operator has' : held === 1 ? 'only one operator has' : `only ${held} operators have`
  return [
    { at, message: `${who} the role \`${role}\``, hint: 'until enough have it, what asks for this is denied: `countersign operators put`' },
  ]
}

export const placeOf = ({ file, whole, at }: Rule['source'], offset: number): string => place(file, whole, at + offset)
