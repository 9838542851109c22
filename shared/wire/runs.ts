// Runs: what an agent asks for when it opens one, and what it sees of it.

import { z } from 'zod'
import { Name, Opaque, RunId, Sha256, Time } from '../fields.ts'
import { Budget } from '../plan/plan.ts'

export const RunSpec = z.strictObject({
  session: Opaque.optional(),
  channel: Name.optional(),
  device: Opaque.optional(),
  budget: Budget.partial().optional(),
})
export type RunSpec = z.infer<typeof RunSpec>

export const Run = z.strictObject({
  id: RunId,
  agent: Name,
  session: z.string(),
  channel: z.string().nullable(),
  device: z.string().nullable(),
  state: z.enum(['open', 'cancelled']),
  budget: Budget,
  used: z.strictObject({ calls: z.int(), denied: z.int() }),
  created_at_ms: Time,
  journal: z.strictObject({ seq: z.int(), head: Sha256 }),
})
export type Run = z.infer<typeof Run>

/** A run in a list. */
export const ListedRun = Run.pick({
  id: true,
  agent: true,
  session: true,
  channel: true,
  state: true,
  created_at_ms: true,
})
export type ListedRun = z.infer<typeof ListedRun>
