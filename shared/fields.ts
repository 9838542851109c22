// Schemas of fields that many documents share: names, ids, digests, times.

import { z } from 'zod'
import { PATTERNS } from './ids.ts'

export const Name = z.string().regex(PATTERNS.name)
export const ToolName = z.string().regex(PATTERNS.tool)
/** A skill's id. It is the first part of the names of its tools, so it is spelled like one. */
export const SkillId = z.string().regex(PATTERNS.tool)
export const RunId = z.string().regex(PATTERNS.run, 'is not the id of a run; those look like run_01ABC…')
export const CallId = z
  .string()
  .regex(PATTERNS.call, 'is not the id of a call; those look like call_01ABC…_1')
export const ApprovalId = z
  .string()
  .regex(PATTERNS.approval, 'is not the id of an approval; those look like apr_01ABC…_1')
export const StandingId = z.string().regex(PATTERNS.standing)
export const WorkerId = z.string().regex(PATTERNS.worker)
export const Sha256 = z.string().regex(PATTERNS.sha256)
export const Time = z.int().min(0)
/**
 * An id that the agent's side chooses, for example of a session or a device. The edge doesn't
 * interpret it.
 */
export const Opaque = z
  .string()
  .min(1)
  .max(128)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without spaces')
