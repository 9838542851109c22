// Helpers of the tests that change each field of a statement alone: the fields of the schema, changes
// that fit every kind of call, and the verdict of offline verification on a signed lie.

import { expect } from 'vitest'
import { sha256 } from '../../shared/bytes/json.ts'
import { type Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import type { Signer } from '../../shared/evidence/dsse.ts'
import { executionDigest, Statement } from '../../shared/evidence/statement.ts'
import { DEFAULT_LIMITS } from '../../shared/limits.ts'
import { collude, KEYS, NOW, statementIn } from './evidence.ts'
import { type Changes, withChanges } from './tamper.ts'

/** The parts of a schema that these tests read. */
type Shape = {
  readonly def: {
    readonly type: string
    readonly shape?: Readonly<Record<string, unknown>>
    readonly innerType?: unknown
    readonly element?: unknown
    readonly items?: readonly unknown[]
    readonly options?: readonly unknown[]
    readonly valueType?: unknown
  }
}

/** Every field that a value of the schema can have, by its path; `*` means any item or name. */
function fieldsOf(schema: unknown, path: readonly string[] = []): string[] {
  const { type, shape, innerType, element, items, options, valueType } = (schema as { readonly _zod: Shape })
    ._zod.def // as zod keeps them
  const below = (inner: unknown, name?: string): string[] =>
    fieldsOf(inner, name === undefined ? path : [...path, name])
  if (type === 'object') return Object.entries(shape ?? {}).flatMap(([name, inner]) => below(inner, name))
  if (type === 'optional' || type === 'nullable') return below(innerType)
  if (type === 'array') return below(element, '*')
  if (type === 'tuple') return (items ?? []).flatMap((item, i) => below(item, `${i}`))
  if (type === 'record') return below(valueType, '*')
  if (type === 'union') return (options ?? []).flatMap((option) => below(option))
  return [path.join('.')]
}
export const FIELDS = [...new Set(fieldsOf(Statement))].sort()

/** A change of the statement. `at`: the field that the refusal names, if it is another one. */
export type Alteration = { readonly to: Changes; readonly at?: string }
/** A change of a field that only the executor knows, or only the edge, which has the output. */
export type Unverifiable = { readonly to: Changes; readonly why: string; readonly edgeRefuses?: true }

export const OTHER = sha256('other')
export const EX = 'predicate.execution'
export const F = 'predicate.facts'
/** Output files that a call left. */
export const LEFT = {
  files: [{ path: 'a', sha256: OTHER, bytes: 1 }],
  left: [{ path: 'b', why: 'name' }],
  more: 0,
}
/** A failure of the executor, which every call can have. */
export const DETAIL_UNKNOWN: readonly [string, Unverifiable] = [
  `${EX}.outcome.detail`,
  {
    to: {
      [`${EX}.outcome`]: { kind: 'infra', detail: 'x' },
      'predicate.state': 'failed',
      'predicate.error': 'sandbox_failed',
    },
    why: 'how it failed',
  },
]

export const set = (path: string, to: unknown): readonly [string, Alteration] => [
  path,
  { to: { [path.replaceAll('*', '0')]: to } },
]
export const all = (paths: readonly string[], bend: Alteration): (readonly [string, Alteration])[] =>
  paths.map((path) => [path, bend])
export const moreThanDefault = (path: string): number =>
  1 + ((DEFAULT_LIMITS as Record<string, number>)[path.split('.').at(-1) ?? ''] ?? 0)
export const under = (path: string): string[] => FIELDS.filter((field) => field.startsWith(`${path}.`))

/** Changes of all fields outside the execution. */
export const OUTSIDE: readonly (readonly [string, Alteration])[] = [
  set('_type', 'https://in-toto.io/Statement/v0.1'),
  set('predicateType', 'https://slsa.dev/provenance/v1'),
  set('subject.0.name', 'call_01KA5XJ3M0000000000000000A_8'),
  set('subject.0.digest.sha256', OTHER),
  set('predicate.attestation_id', 'att_01KA5XJ3M0000000000000000A_8'),
  set('predicate.state', 'failed'),
  set('predicate.error', 'runtime_failure'),
  set('predicate.timed_out', true),
  set('predicate.execution_sha256', OTHER),
  set('predicate.grant.sha256', OTHER),
  set('predicate.grant.worker', 'wrk_01KA5XJ3M0000000000000000B'),
  set('predicate.grant.fence', 2),
  set('predicate.grant.deadline_ms', NOW + 40_001),
  set(`${F}.tenant`, 'other'),
  set(`${F}.run`, 'run_01KA5XJ3M0000000000000000B'),
  set(`${F}.call`, 'call_01KA5XJ3M0000000000000000A_8'),
  set(`${F}.agent`, 'other'),
  set(`${F}.session`, 'other'),
  set(`${F}.tool.name`, 'other'),
  set(`${F}.tool.version`, 4),
  set(`${F}.tool.digest`, OTHER),
  set(`${F}.digest`, OTHER),
  set(`${F}.args_sha256`, OTHER),
  set(`${F}.plan_sha256`, OTHER),
  ...under(`${F}.limits`).map((path) => set(path, moreThanDefault(path))),
  set(`${F}.egress.mode`, 'preflight'),
  set(`${F}.egress.hosts.*`, 'evil.example'),
  set(`${F}.decision.effect`, 'allow'),
  set(`${F}.decision.policies.*`, 'other'),
  set(`${F}.decision.policy_set`, OTHER),
  set(`${F}.decision.snapshot`, OTHER),
  set(`${F}.origin.reason`, 'nobody asked for it'),
  set(`${F}.origin.actor.issuer`, 'https://id.example.net'),
  set(`${F}.origin.actor.subject`, 'repo:acme/other'),
  set(`${F}.origin.actor.client`, 'other'),
  set(`${F}.origin.actor.acting`, 'other'),
  set(`${F}.origin.actor.jti_sha256`, OTHER),
  set(`${F}.origin.via.protocol`, 'other'),
  set(`${F}.origin.via.revision`, '2025-11-25'),
  set(`${F}.origin.via.client`, 'other'),
  set(`${F}.approval.id`, 'apr_01KA5XJ3M0000000000000000A_8'),
  set(`${F}.approval.scope`, 'session'),
  set(`${F}.approval.answers.*.by`, 'other'),
  set(`${F}.approval.answers.*.decision`, 'deny'),
  set(`${F}.approval.answers.*.channel`, 'other'),
  set(`${F}.approval.answers.*.at_ms`, 1),
  set(`${F}.approval.answers.*.standing`, 'std_01KA5XJ3M0000000000000000A'),
]

/**
 * The statement of the bundle as it would be signed: with a new execution digest, unless the test
 * changes the digest itself.
 */
export function resigned(bundle: Bundle, to: Changes): Changes {
  const original = statementIn(bundle)
  if ('predicate.execution_sha256' in to) return to
  const { execution } = withChanges(original, to).predicate
  const digest = executionDigest(original.predicate.facts.digest, execution)
  return { ...to, 'predicate.execution_sha256': digest }
}

export type Verdict = { readonly ok: boolean; readonly at: readonly string[] }

export function byAuditor(bundle: Bundle, to: Changes, signers: readonly Signer[]): Verdict {
  const changes = Object.fromEntries(
    Object.entries(resigned(bundle, to)).map(([path, value]) => [`statement.${path}`, value]),
  )
  const { ok, checks } = verifyBundle(collude(bundle, changes, signers), KEYS)
  return { ok, at: checks.flatMap((check) => (check.ok || check.at === undefined ? [] : [check.at])) }
}

/** Whether one of these is the field, as a path or as a pointer, or one of its parents. */
const names = (at: readonly string[], field: string): boolean => {
  const pointer = field.startsWith('/') ? field : `/${field.replaceAll('*', '0').replaceAll('.', '/')}`
  return at.some((one) => pointer === one || pointer.startsWith(`${one}/`))
}

export function expectRefusedAt(at: string, verdicts: Readonly<Record<string, Verdict>>): void {
  for (const [by, verdict] of Object.entries(verdicts))
    expect([by, verdict.ok, names(verdict.at, at) || verdict.at]).toEqual([by, false, true])
}
