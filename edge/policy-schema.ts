// What policies may speak of, as a Cedar schema: policies/schema.cedarschema, and for each tool of the tenant an action of its own whose
// context has that tool's arguments. Pure.

import type { Schema } from './policy.ts'
import type { RecordType } from './typed-arguments.ts'

/** `null`: its name is known and no rule is held against it. */
export type ToolTypes = ReadonlyMap<string, RecordType | null>

export function tenantSchema(base: Schema, tools: ToolTypes): Schema {
  const all = base['']
  const execution = all?.commonTypes?.['Execution']
  if (all === undefined || execution === undefined || !('attributes' in execution))
    throw new Error('the policy schema has no record `Execution`') // a bug: the schema is ours
  const actions: typeof all.actions = { ...all.actions }
  for (const [name, args] of tools) {
    const context = args === null ? undefined : { type: 'Record' as const, attributes: { ...execution.attributes, args } }
    actions[`tool.execute/${name}`] = {
      memberOf: [{ id: 'tool.execute' }],
      ...(context === undefined ? {} : { appliesTo: { principalTypes: ['Agent'], resourceTypes: ['Tool'], context } }),
    }
  }
  return { ...base, '': { ...all, actions } }
}
