// The shape of an isolate’s answer. It is untrusted: an answer of another shape is not read.

import { z } from 'zod'
import { LIMITS } from '../../../shared/limits.ts'

/** Functions of the skill's world, as the harness counts them. */
const HOST_FUNCTIONS = [
  'log.write',
  'clock.now',
  'random.bytes',
  'http.request',
  'http.response',
  'secrets.get',
  'kv.get',
  'kv.set',
  'kv.delete',
  'kv.keys',
  'channel.post',
] as const

const Detail = z.string().max(LIMITS.skill_detail_chars)
export const IsolateAnswer = z.strictObject({
  end: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('returned'), output: z.string() }),
    z.strictObject({ kind: z.literal('skill_error'), detail: Detail }),
    z.strictObject({ kind: z.literal('trap'), detail: Detail }),
    z.strictObject({ kind: z.literal('fuel_exhausted') }),
    z.strictObject({ kind: z.literal('capability_denied'), detail: Detail }),
  ]),
  log: z.string().max(LIMITS.skill_log_chars + LIMITS.skill_log_spare_chars),
  fuel_used: z.int().min(0),
  memory_bytes: z.int().min(0),
  host_calls: z.partialRecord(z.enum(HOST_FUNCTIONS), z.int().min(0)),
})
export type IsolateAnswer = z.infer<typeof IsolateAnswer>
