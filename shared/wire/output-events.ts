// Events of a followed call: its state, its output as the tool writes it, and its end. A position
// names how far a reader has got and is the id of each event: `attempt.stdout.stderr`, in bytes of
// the stored part of each stream.

import { z } from 'zod'
import { CallState } from '../evidence/statement.ts'
import { CallResult } from './calls.ts'

export const Position = z
  .string()
  .regex(/^\d{1,6}\.\d{1,9}\.\d{1,9}$/, 'is not a position; send the id of an event, attempt.stdout.stderr')

/** The next bytes of a stream; text is split between characters only. */
const OutputPart = z.strictObject({
  offset: z.int().min(0),
  encoding: z.enum(['utf-8', 'base64']),
  data: z.string(),
})

export const LIVE_EVENTS = {
  /**
   * Sent first and after each change. A new `attempt` restarts both streams: the previous attempt's
   * worker was lost.
   */
  state: z.strictObject({ state: CallState, attempt: z.int().min(0), cancel_requested: z.boolean() }),
  stdout: OutputPart,
  stderr: OutputPart,
  /** Sent last: the result without its output. */
  end: CallResult.omit({ output: true, encoding: true, stderr: true }).extend({ state: CallState }),
} as const
export type LiveEvent = {
  [K in keyof typeof LIVE_EVENTS]: { event: K; data: z.infer<(typeof LIVE_EVENTS)[K]> }
}[keyof typeof LIVE_EVENTS]
export type LiveState = z.infer<typeof LIVE_EVENTS.state>
export type LiveEnd = z.infer<typeof LIVE_EVENTS.end>
