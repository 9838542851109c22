// What whoever follows a call is told, event by event: where it stands, what it writes as it writes it, and its end. A position says up to
// where somebody has heard, and is the id of each event: `attempt.stdout.stderr`, in bytes of what is kept of each stream.

import { z } from 'zod'
import { CallState } from '../evidence/statement.ts'
import { CallResult } from './calls.ts'

export const Position = z
  .string()
  .regex(/^\d{1,6}\.\d{1,9}\.\d{1,9}$/, 'is no position; those are attempt.stdout.stderr')

/** The next bytes of a stream, whole characters where it is text. A program tells its progress on `stderr`. */
const Piece = z.strictObject({
  offset: z.int().min(0),
  encoding: z.enum(['utf-8', 'base64']),
  data: z.string(),
})

export const LIVE_EVENTS = {
  /** First, and as often as it changes. With another `attempt` both streams begin anew: the worker of the one before was lost. */
  state: z.strictObject({ state: CallState, attempt: z.int().min(0), cancel_requested: z.boolean() }),
  stdout: Piece,
  stderr: Piece,
  /** Last: the result without its output. */
  end: CallResult.omit({ output: true, encoding: true, stderr: true }).extend({ state: CallState }),
} as const
export type LiveEvent = {
  [K in keyof typeof LIVE_EVENTS]: { event: K; data: z.infer<(typeof LIVE_EVENTS)[K]> }
}[keyof typeof LIVE_EVENTS]
export type LiveState = z.infer<typeof LIVE_EVENTS.state>
export type LiveEnd = z.infer<typeof LIVE_EVENTS.end>
