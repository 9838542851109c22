// The source of the client packages' types: the schemas that an agent sends and reads, by name, as
// JSON Schema, and the routes that an agent may call. Everything comes from the route table.

import { z } from 'zod'
import { Actor } from '../../shared/evidence/actor.ts'
import { Bundle } from '../../shared/evidence/bundle.ts'
import { Envelope } from '../../shared/evidence/dsse.ts'
import { JournalEntry } from '../../shared/evidence/journal.ts'
import { Keys } from '../../shared/evidence/keys.ts'
import { CallOrigin } from '../../shared/evidence/origin.ts'
import { PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import { CallState, Statement, ToolRef } from '../../shared/evidence/statement.ts'
import { type Code, entryOf, FAILURES } from '../../shared/failures.ts'
import { HeldFile, InputFiles, OutputFiles } from '../../shared/plan/call-files.ts'
import {
  Budget,
  Credential,
  Limits,
  Plan,
  ProcessPlan,
  SkillLimits,
  SkillPlan,
  UpstreamLimits,
  UpstreamPlan,
} from '../../shared/plan/plan.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Route } from '../../shared/routes/route.ts'
import { HypotheticalCall, ProposedCall, ProposedCallInNewRun } from '../../shared/wire/call-request.ts'
import { Call, CallResult, Decision, DryRun } from '../../shared/wire/calls.ts'
import { Change, Explanation } from '../../shared/wire/explanation.ts'
import { LIVE_EVENTS } from '../../shared/wire/output-events.ts'
import { Run, RunSpec } from '../../shared/wire/runs.ts'
import { ToolSummary } from '../../shared/wire/tools.ts'

/** The part of JSON Schema that our schemas use. */
export type JsonSchema = {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly allOf?: readonly JsonSchema[]
  readonly not?: JsonSchema
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | JsonSchema
  readonly items?: JsonSchema
  readonly prefixItems?: readonly JsonSchema[]
  readonly description?: string
}
export type NamedSchemas = ReadonlyMap<string, JsonSchema>

/** The members of a union, written as alternatives or as a list of types. */
export const alternatives = (schema: JsonSchema): readonly JsonSchema[] | undefined =>
  schema.anyOf ??
  schema.oneOf ??
  (typeof schema.type === 'object' ? schema.type.map((type) => ({ ...schema, type })) : undefined)

/** The schemas that get a name in the packages. All others are written inline. */
const NAMES: Readonly<Record<string, z.ZodType>> = {
  Actor,
  CallOrigin,
  Credential,
  ToolRef,
  InputFile: InputFiles.element,
  Limits,
  SkillLimits,
  UpstreamLimits,
  ProcessPlan,
  SkillPlan,
  UpstreamPlan,
  Budget,
  RunSpec,
  Run,
  ProposedCall,
  ProposedCallInNewRun,
  HypotheticalCall,
  CallState,
  Change,
  Explanation,
  Decision,
  OutputFiles,
  CallResult,
  Plan,
  Call,
  DryRun,
  HeldFile,
  ToolSummary,
  Envelope,
  Bundle,
  Keys,
  Statement,
  JournalEntry,
  PolicySnapshot,
  LiveState: LIVE_EVENTS.state,
  LiveOutput: LIVE_EVENTS.stdout,
  LiveEnd: LIVE_EVENTS.end,
}

/** The named schemas as JSON Schema; a reference is the bare name. */
export function namedSchemas(): NamedSchemas {
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(NAMES)) registry.add(schema, { id })
  const { schemas } = z.toJSONSchema(registry, { uri: (id) => id, unrepresentable: 'any' })
  return new Map(Object.keys(NAMES).map((name) => [name, schemas[name] as JsonSchema])) // zod's own output
}

export type AgentRoute = { readonly name: string; readonly method: string; readonly path: string }

/** The routes with an agent's key, and those that an agent needs without one. */
export const agentRoutes = (): AgentRoute[] =>
  Object.entries(ROUTES as Record<string, Route>)
    .filter(([name, { callers }]) => callers.includes('agent') || name === 'keys')
    .map(([name, { method, path }]) => ({ name, method, path }))

/** Codes that a response may name, and whether a later try can succeed. */
export const failureCodes = (): { readonly code: string; readonly retry: boolean }[] =>
  Object.keys(FAILURES)
    .map((code) => ({ code, retry: entryOf(code as Code).retry })) // the keys of `FAILURES` are the codes
    .sort((a, b) => (a.code < b.code ? -1 : 1))
