// Trials of an unpublished skill: each test is a call in an ordinary isolate, whose host replays
// recorded answers.

import { z } from 'zod'
import { Name, Time } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Outcome } from '../plan/plan.ts'
import { UnboundManifest } from './skills.ts'

const Text = z.string().max(LIMITS.trial_text_chars)
/** `METHOD URL`. */
const Line = z.string().max(LIMITS.skill_url_chars + 16)

/** The host's recorded answers. Each is used once, in order. */
const RecordedAnswers = z.strictObject({
  http: z
    .array(
      z.union([
        z.strictObject({
          request: Line,
          status: z.int().min(200).max(599).default(200),
          headers: z.record(z.string().max(256), z.string().max(4_096)).default({}),
          body: Text.default(''),
        }),
        /** The host was unreachable. */
        z.strictObject({ request: Line, unreachable: z.literal(true) }),
      ]),
    )
    .max(LIMITS.trial_answers)
    .default([]),
  secrets: z.record(Name, z.string().min(1).max(LIMITS.secret_chars)).default({}),
  /** The skill's storage before the call. */
  kv: z.record(z.string().max(LIMITS.skill_key_chars), Text).default({}),
  /** Milliseconds since 1970. */
  clock: Time.default(0),
  /** Random bytes in hex, repeated as often as needed. */
  random: z
    .string()
    .regex(/^(?:[0-9a-f]{2}){1,64}$/)
    .default('00'),
})
export type RecordedAnswers = z.infer<typeof RecordedAnswers>

export const Trial = z.strictObject({
  tool: Name,
  input: z.record(z.string(), z.unknown()),
  host: RecordedAnswers.prefault({}),
})
export type Trial = z.infer<typeof Trial>

export const Trials = z.strictObject({
  manifest: UnboundManifest,
  component: z.string().max(LIMITS.skill_package_bytes),
  trials: z.array(Trial).min(1).max(LIMITS.trials),
})

/** The result of one trial. */
export const TrialResult = z.strictObject({
  outcome: Outcome,
  output: z.string(),
  log: z.string(),
  fuel_used: z.int(),
  memory_bytes: z.int(),
  host_calls: z.record(z.string(), z.int()),
  /**
   * Its requests to permitted hosts, credentials included. `answered`: the test had a recorded
   * answer.
   */
  requests: z.array(
    z.strictObject({
      request: z.string(),
      headers: z.record(z.string(), z.string()),
      body: z.string(),
      answered: z.boolean(),
    }),
  ),
  /** The skill's storage after the call, as text. */
  kv: z.record(z.string(), z.string()),
  posts: z.array(z.strictObject({ channel: z.string(), text: z.string() })),
})
export type TrialResult = z.infer<typeof TrialResult>
