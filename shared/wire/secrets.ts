// A tenant's secrets as operators store and list them. The API never returns a value; only a claim
// hands it to the worker.

import { z } from 'zod'
import { Name, Time } from '../fields.ts'
import { PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'
import { HostPort } from '../plan/plan.ts'
import { isDistinctive } from '../secrets/byte-search.ts'

/** A tool, or an upstream as `upstream:NAME`: the edge authenticates to it with the secret. */
const SecretUser = z
  .string()
  .regex(
    new RegExp(`${PATTERNS.tool.source}|^upstream:${PATTERNS.upstream.source.slice(1)}`),
    'must be the name of a tool, or `upstream:NAME`',
  )

/**
 * A tool's author could name any secret, so the operator who stores a secret lists the tools that
 * may use it.
 */
const shared = {
  tools: z.array(SecretUser).min(1).max(LIMITS.secret_tools),
  /** If set, no tool receives the value: the proxy adds it to requests to these hosts only. */
  hosts: z.array(HostPort).min(1).max(LIMITS.secret_hosts).optional(),
}

export const SecretSpec = z.strictObject({
  /** A shorter value could not be distinguished from ordinary text, so it could not be masked. */
  value: z
    .string()
    .min(LIMITS.secret_chars_min)
    .max(LIMITS.secret_chars)
    .refine(
      isDistinctive,
      `must have at least ${LIMITS.secret_chars_min} characters other than spaces, quotes, commas, colons and backslashes`,
    ),
  ...shared,
})
export type SecretSpec = z.infer<typeof SecretSpec>

/** `version` increases with each value that is stored under the name. */
export const Secret = z.strictObject({
  name: Name,
  version: z.int().min(1),
  ...shared,
  put_by: Name,
  put_at_ms: Time,
})
export type Secret = z.infer<typeof Secret>
