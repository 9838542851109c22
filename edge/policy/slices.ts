// Selects the policies of a set that can apply to a request, by their scopes alone. A scope depends
// on identities, types and the action's groups, never on data, and it can't fail: leaving out a
// policy whose scope does not match changes neither the answer nor an error. A policy that can't be
// ruled out stays in.

import type { EntityJson, EntityUidJson, PolicyJson, TypeAndId } from '@cedar-policy/cedar-wasm/web'

/** A request without its context: principal, action, resource and their entities. */
export type Subject = {
  readonly principal: TypeAndId
  readonly action: string
  readonly resource: TypeAndId
  readonly entities: readonly EntityJson[]
}

/** The type or entity that a scope requires. Empty if the match depends on group membership. */
type Pin = { readonly type?: string; readonly uid?: string }
export type Scope = {
  readonly principal: Pin
  /**
   * The action must be one of these, or in one of them if `groups` is set; `null` for any action.
   */
  readonly actions: { readonly uids: readonly string[]; readonly groups: boolean } | null
  readonly resource: Pin
}

/** Unambiguous, because no type contains a space. */
const textOf = ({ type, id }: TypeAndId): string => `${type} ${id}`
/** Cedar's JSON has two forms of an entity's id. */
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

const covers = (
  { uids, groups }: NonNullable<Scope['actions']>,
  action: string,
  isIn: readonly string[],
): boolean => uids.some((uid) => uid === action || (groups && isIn.includes(uid)))

const couldBe = ({ type, uid }: Pin, kind: string): boolean =>
  (type === undefined || type === kind) && (uid === undefined || uid.startsWith(`${kind} `))

/** The groups of the actions of tools. */
export const GROUPS = ['tool.execute', 'skill.execute']
const GROUP_UIDS = GROUPS.map((id) => textOf({ type: 'Action', id }))
const TOOL_UID = textOf({ type: 'Action', id: 'tool.execute/' })

/** The tools whose calls a scope covers: all of them, or a list of names. */
export function toolsIn({ principal, actions, resource }: Scope): 'all' | readonly string[] {
  if (!couldBe(principal, 'Agent') || !couldBe(resource, 'Tool')) return []
  if (actions === null || (actions.groups && actions.uids.some((uid) => GROUP_UIDS.includes(uid))))
    return 'all'
  return actions.uids.flatMap((uid) => (uid.startsWith(TOOL_UID) ? [uid.slice(TOOL_UID.length)] : []))
}

/** Whether a scope covers no action but calls of tools. */
export const coversOnlyTools = ({ actions }: Scope): boolean =>
  actions?.uids.every((uid) => GROUP_UIDS.includes(uid) || uid.startsWith(TOOL_UID)) ?? false

/**
 * The groups of all actions among the entities. Groups of other actions do no harm: they only keep
 * more policies in.
 */
const groupsOf = ({ entities }: Subject): string[] =>
  entities.flatMap(({ uid, parents }) =>
    idOf(uid).type === 'Action' ? parents.map((parent) => textOf(idOf(parent))) : [],
  )

/** Bounds of the two caches below: subjects, and policies in slices. A full cache is emptied. */
const KEPT = 5_000
const MEMBERS_KEPT = 200_000
/**
 * The number of policies in slices that the engine parses separately. An unneeded policy costs a
 * request 1 µs; parsing a slice costs 100 µs for each policy.
 */
const PARSED_SEPARATELY = 5_000

/**
 * Returns a function that maps a subject to its slice: the members whose scope can match it,
 * converted by `make`. Subjects with the same members share one slice. Beyond `PARSED_SEPARATELY`,
 * further slices are evaluated `within` the whole set.
 */
export function slicer<M extends { readonly scope: Scope }, S>(
  members: readonly M[],
  make: (members: readonly M[], within: S | null) => S,
): (subject: Subject) => S {
  let kept = 0
  let separate = 0
  let whole: S | undefined
  const named = new Set(
    members.flatMap(({ scope: { principal, resource } }) => [principal.uid, resource.uid]),
  )
  // An entity that no scope names matters only by its type.
  const keyOf = (entity: TypeAndId): string => (named.has(textOf(entity)) ? textOf(entity) : entity.type)
  const bySubject = new Map<string, S>()
  const byMembers = new Map<string, S>()
  return (subject) => {
    const { principal, resource } = subject
    const groups = groupsOf(subject)
    const key = JSON.stringify([keyOf(principal), subject.action, keyOf(resource), ...groups])
    const known = bySubject.get(key)
    if (known !== undefined) return known
    const action = textOf({ type: 'Action', id: subject.action })
    const matches = ({ scope: { principal: who, actions, resource: what } }: M): boolean =>
      fits(who, principal) && fits(what, resource) && (actions === null || covers(actions, action, groups))
    const chosen = members.flatMap((member, index) => (matches(member) ? [index] : []))
    const name = chosen.join()
    if (bySubject.size >= KEPT || kept > MEMBERS_KEPT) {
      bySubject.clear()
      byMembers.clear()
      kept = separate = 0
    }
    let slice = byMembers.get(name)
    if (slice === undefined) {
      kept += chosen.length
      const isSeparate = separate + chosen.length <= PARSED_SEPARATELY
      if (isSeparate) separate += chosen.length
      else whole ??= make(members, null)
      slice = make(
        chosen.flatMap((index) => members[index] ?? []),
        isSeparate ? null : (whole ?? null),
      )
      byMembers.set(name, slice)
    }
    bySubject.set(key, slice)
    return slice
  }
}
