// A tenant's secrets as operators put and list them. A value goes in and never comes out: only a claim hands it on, to the worker.

import { z } from 'zod'
import { Name, Time, ToolName } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { HostPort } from '../plan/plan.ts'
import { isTellable } from '../secrets/byte-search.ts'

/** Whoever may write tools could name any secret in one: so whoever puts a secret says which tools may have it. */
const shared = {
  tools: z.array(ToolName).min(1).max(LIMITS.secret_tools),
  /** Where said, no tool is handed it: the proxy adds it to requests to these hosts, and to no others. */
  hosts: z.array(HostPort).min(1).max(LIMITS.secret_hosts).optional(),
}

export const SecretSpec = z.strictObject({
  /** A shorter one can't be told from other text, and so not be kept out of it. */
  value: z
    .string()
    .min(LIMITS.secret_chars_min)
    .max(LIMITS.secret_chars)
    .refine(
      isTellable,
      `a secret has at least ${LIMITS.secret_chars_min} characters beside spaces, quotes, commas, colons and backslashes`,
    ),
  ...shared,
})
export type SecretSpec = z.infer<typeof SecretSpec>

/** `version` counts up with each value that is put under the name. */
export const Secret = z.strictObject({
  name: Name,
  version: z.int().min(1),
  ...shared,
  put_by: Name,
  put_at_ms: Time,
})
export type Secret = z.infer<typeof Secret>
