// The Cedar schema of a tenant: policies/schema.cedarschema, plus one action per tool whose context
// has the tool's typed arguments. Pure.

import type { RecordType } from './argument-typing.ts'
import type { Schema } from './engine.ts'
import { GROUPS } from './slices.ts'

/**
 * `args`: `null` if rules may name the tool but are not checked against it. `groups`: its parent
 * actions.
 */
export type ToolTypes = ReadonlyMap<
  string,
  { readonly args: RecordType | null; readonly groups: readonly string[] }
>

export function tenantSchema(base: Schema, tools: ToolTypes): Schema {
  const all = base['']
  const execution = all?.commonTypes?.['Execution']
  if (all === undefined || execution === undefined || !('attributes' in execution))
    throw new Error('the policy schema has no record `Execution`') // a bug: the schema is ours
  const actions: typeof all.actions = { ...all.actions }
  const commonTypes: typeof all.commonTypes = { ...all.commonTypes }
  /** The names of contexts by their arguments: the engine reads each once, however many tools share it. */
  const contexts = new Map<string, string>()
  for (const [name, { args, groups }] of tools) {
    const member = { memberOf: groups.map((id) => ({ id })) }
    if (args === null) {
      actions[`tool.execute/${name}`] = member
      continue
    }
    const key = JSON.stringify(args)
    const type = contexts.get(key) ?? `Execution_${contexts.size}`
    contexts.set(key, type)
    commonTypes[type] ??= { type: 'Record', attributes: { ...execution.attributes, args } }
    actions[`tool.execute/${name}`] = {
      ...member,
      appliesTo: { principalTypes: ['Agent'], resourceTypes: ['Tool'], context: { type } },
    }
  }
  return { ...base, '': { ...all, commonTypes, actions } }
}

/** The schema in which nothing but calls of tools has a principal, a resource and a context. */
export function toolsAlone(base: Schema): Schema {
  const all = base['']
  if (all === undefined) throw new Error('the policy schema is empty') // a bug: the schema is ours
  const actions = Object.entries(all.actions).map(([name, action]) => [
    name,
    GROUPS.includes(name) ? action : {},
  ])
  return { ...base, '': { ...all, actions: Object.fromEntries(actions) } }
}
