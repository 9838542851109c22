// Retention: how long a tenant keeps parts of ended runs, which were removed of a call, and legal holds.

import { z } from 'zod'
import { EvidenceRemoval, PartsRemoval, type Removal } from '../evidence/removal.ts'
import { Name, RunId, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'

/** The kinds that a rule removes, in this order: none is kept for longer than the next one. */
export const KEPT = ['outputs', 'arguments', 'evidence'] as const
export type Kept = (typeof KEPT)[number]

/** Days after the last event of a run; `null`: for ever. */
const Days = z.int().min(1).max(LIMITS.keep_days).nullable()
export const Keep = z
  .strictObject({ outputs: Days, arguments: Days, evidence: Days })
  .refine((keep) => days(keep.outputs) <= days(keep.arguments), {
    path: ['outputs'],
    message: 'must not be more than `arguments`: an output says a lot about the arguments',
  })
  .refine((keep) => days(keep.arguments) <= days(keep.evidence), {
    path: ['arguments'],
    message: 'must not be more than `evidence`: nothing would show what was decided about them',
  })
export type Keep = z.infer<typeof Keep>
export const KEEP_ALL: Keep = { outputs: null, arguments: null, evidence: null }

const days = (given: number | null): number => given ?? Number.POSITIVE_INFINITY

/** A rule, with its number in the tenant, which each removal names. */
export const RetentionRule = z.strictObject({ rule: z.int().min(1), keep: Keep, by: Name, at_ms: Time })
export type RetentionRule = z.infer<typeof RetentionRule>

/** The subject of a hold: the whole tenant, or one run. */
export const HoldSubject = z.union([z.literal('tenant'), RunId])
export const Reason = z.string().trim().min(1).max(LIMITS.reason_chars)
export const Hold = z.strictObject({ subject: HoldSubject, reason: z.string(), by: Name, at_ms: Time })
export type Hold = z.infer<typeof Hold>

/** The kinds that were removed of a call, each with its date and rule. */
export const Removed = PartsRemoval.extend({ evidence: EvidenceRemoval.optional() })
export type Removed = z.infer<typeof Removed>

const SUBJECT: Readonly<Record<Kept, string>> = {
  outputs: 'the outputs of this call were',
  arguments: 'the arguments of this call were',
  evidence: 'the evidence of this call was',
}

/** In words, as every refusal says it. */
export const removalText = (what: Kept, removal: Removal): string =>
  `${SUBJECT[what]} ${removalWords(what, removal)}`

/** The same of a journal that lacks its entries up to `seq`. */
export const journalRemovalText = (seq: number, removal: Removal): string =>
  `the entries of this journal up to entry ${seq} were ${removalWords('evidence', removal)}; read on after entry ${seq}`

const removalWords = (what: Kept, { at_ms, rule, days }: Removal): string =>
  `removed on ${new Date(at_ms).toISOString().slice(0, 'YYYY-MM-DD'.length)} by retention rule ${rule}, which keeps ${what} for ${days} ${days === 1 ? 'day' : 'days'}`
