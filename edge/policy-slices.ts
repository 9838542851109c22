// Which policies of a set can matter to a question, told by their scopes alone. A scope is decided by identities, types and the
// action's groups, never by data, and it never errs: so what it rules out changes neither an answer nor an error. Whatever this can't rule
// out stays in. Pure: it knows no engine.

import type { EntityJson, EntityUidJson, PolicyJson, TypeAndId } from '@cedar-policy/cedar-wasm/web'

/** Who would do what to what, and what is known of them: a question without its context. */
export type Subject = {
  readonly principal: TypeAndId
  readonly action: string
  readonly resource: TypeAndId
  readonly entities: readonly EntityJson[]
}

/** What one end of a scope demands; nothing, where who is in what would have to be known. */
type Pin = { readonly type?: string; readonly uid?: string }
export type Scope = {
  readonly principal: Pin
  /** One of these must be the action, or be among its groups where they count; `null` for any action. */
  readonly actions: { readonly uids: readonly string[]; readonly groups: boolean } | null
  readonly resource: Pin
}

/** No type has a blank in it, so no two entities share a text. */
const textOf = ({ type, id }: TypeAndId): string => `${type} ${id}`
/** In either of the forms of its JSON. */
export const idOf = (uid: EntityUidJson): TypeAndId => ('__entity' in uid ? uid.__entity : uid)

export function scopeOf({ principal, action, resource }: PolicyJson): Scope {
  return { principal: pinOf(principal), actions: actionsOf(action), resource: pinOf(resource) }
}

function pinOf(constraint: PolicyJson['principal'] | PolicyJson['resource']): Pin {
  if (constraint.op === 'is') return { type: constraint.entity_type }
  if (constraint.op === '==' && 'entity' in constraint) return { uid: textOf(idOf(constraint.entity)) }
  return {}
}

function actionsOf(constraint: PolicyJson['action']): Scope['actions'] {
  if (constraint.op === 'All' || 'slot' in constraint) return null
  const uids = 'entities' in constraint ? constraint.entities : [constraint.entity]
  return { uids: uids.map((uid) => textOf(idOf(uid))), groups: constraint.op === 'in' }
}

const fits = ({ type, uid }: Pin, entity: TypeAndId): boolean =>
  (type === undefined || type === entity.type) && (uid === undefined || uid === textOf(entity))

const covers = ({ uids, groups }: NonNullable<Scope['actions']>, action: string, isIn: readonly string[]): boolean =>
  uids.some((uid) => uid === action || (groups && isIn.includes(uid)))

const couldBe = ({ type, uid }: Pin, kind: string): boolean =>
  (type === undefined || type === kind) && (uid === undefined || uid.startsWith(`${kind} `))

const GROUPS = ['tool.execute', 'skill.execute'].map((id) => textOf({ type: 'Action', id }))

/** Which calls of tools a scope covers: all of them, or some by their actions' names. */
export function toolsIn({ principal, actions, resource }: Scope): 'all' | readonly string[] {
  if (!couldBe(principal, 'Agent') || !couldBe(resource, 'Tool')) return []
  if (actions === null || (actions.groups && actions.uids.some((uid) => GROUPS.includes(uid)))) return 'all'
  const prefix = textOf({ type: 'Action', id: 'tool.execute/' })
  return actions.uids.flatMap((uid) => (uid.startsWith(prefix) ? [uid.slice(prefix.length)] : []))
}

/** Every group that any action among the entities is said to be in: more than this action's own do no harm. */
const groupsOf = ({ entities }: Subject): string[] =>
  entities.flatMap(({ uid, parents }) => (idOf(uid).type === 'Action' ? parents.map((parent) => textOf(idOf(parent))) : []))

/** Questions remembered with their slices, and members of those; past these, they are found anew. */
const KEPT = 5_000
const MEMBERS_KEPT = 200_000
/**
 * Members of slices that stand by themselves. What needn't be asked costs a question 1 µs; a slice that is parsed anew, 100 for each
 * member.
 */
const ALONE = 5_000

/**
 * Cuts a set into slices: for a subject, the members whose scope it may meet, made into what the caller keeps of them. Each slice is made
 * once, however many subjects share it. Where there are too many, the rest stand `within` the whole set: they are asked with it.
 */
export function slicer<M extends { readonly scope: Scope }, S>(
  members: readonly M[],
  make: (members: readonly M[], within: S | null) => S,
): (subject: Subject) => S {
  let kept = 0
  let alone = 0
  let whole: S | undefined
  const named = new Set(members.flatMap(({ scope: { principal, resource } }) => [principal.uid, resource.uid]))
  // Of an entity that no scope names, only the type counts.
  const told = (entity: TypeAndId): string => (named.has(textOf(entity)) ? textOf(entity) : entity.type)
  const bySubject = new Map<string, S>()
  const byMembers = new Map<string, S>()
  return (subject) => {
    const { principal, resource } = subject
    const groups = groupsOf(subject)
    const key = JSON.stringify([told(principal), subject.action, told(resource), ...groups])
    const known = bySubject.get(key)
    if (known !== undefined) return known
    const action = textOf({ type: 'Action', id: subject.action })
    const meets = ({ scope: { principal: who, actions, resource: what } }: M): boolean =>
      fits(who, principal) && fits(what, resource) && (actions === null || covers(actions, action, groups))
    const chosen = members.flatMap((member, index) => (meets(member) ? [index] : []))
    const name = chosen.join()
    if (bySubject.size >= KEPT || kept > MEMBERS_KEPT) {
      bySubject.clear()
      byMembers.clear()
      kept = alone = 0
    }
    let slice = byMembers.get(name)
    if (slice === undefined) {
      kept += chosen.length
      const isAlone = alone + chosen.length <= ALONE
      if (isAlone) alone += chosen.length
      else whole ??= make(members, null)
      slice = make(
        chosen.flatMap((index) => members[index] ?? []),
        isAlone ? null : (whole ?? null),
      )
      byMembers.set(name, slice)
    }
    bySubject.set(key, slice)
    return slice
  }
}
