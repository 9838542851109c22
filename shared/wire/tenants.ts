// Tenants as the operator of the installation sees them.

import { z } from 'zod'
import { Time } from '../fields.ts'
import { INSTALLATION_LOG, PATTERNS } from '../ids.ts'
import { LIMITS } from '../limits.ts'

/**
 * Tenants of an installation, including deleted ones, whose names are kept so that none is used
 * twice.
 */
export const MAX_TENANTS = 10_000
/**
 * The most calls of a tenant that one write counts in advance, and at most a hundredth of its
 * quota. A crash may lose up to this many.
 */
export const CALLS_PER_COUNT = 100

/**
 * Each limit of a tenant: its default, and the highest value that the operator of the installation
 * may set.
 */
export const DEFAULT_QUOTA = {
  /** About twelve calls a second for a whole day. */
  calls_per_day: 1_000_000,
  storage_bytes: LIMITS.tenant_storage_bytes,
  workers: 100,
  streams: LIMITS.streams_tenant,
} as const
const MAX_QUOTA = {
  calls_per_day: 1_000_000_000,
  storage_bytes: 2 ** 40,
  workers: 1_000,
  streams: 10_000,
} as const

/** `installation` names the installation's own log. */
export const TenantName = z
  .string()
  .regex(
    PATTERNS.tenant,
    'is not a valid tenant name; use 1 to 32 of `a-z`, `0-9` and `-`, beginning with a letter',
  )
  .refine((name) => name !== INSTALLATION_LOG, 'is reserved for the installation’s own log; choose another')

export const TenantState = z.enum(['active', 'suspended', 'deleted'])
export type TenantState = z.infer<typeof TenantState>

export const Quota = z.strictObject({
  /** Calls that its agents may propose within one day in UTC. */
  calls_per_day: z.int().min(0).max(MAX_QUOTA.calls_per_day),
  /** Bytes that it may store: what calls leave, files of runs, and storage and code of skills. */
  storage_bytes: z.int().min(0).max(MAX_QUOTA.storage_bytes),
  /** Workers that may be enrolled at a time. */
  workers: z.int().min(0).max(MAX_QUOTA.workers),
  /** Pages and streams that may be open at a time. */
  streams: z.int().min(0).max(MAX_QUOTA.streams),
})
export type Quota = z.infer<typeof Quota>

export const Tenant = z.strictObject({
  name: z.string(),
  state: TenantState,
  created_at_ms: Time,
  changed_at_ms: Time,
  quota: Quota,
  /** Whether the data of a deleted tenant has been removed, which may take a while. */
  erased: z.boolean().optional(),
})
export type Tenant = z.infer<typeof Tenant>

/** A change of some limits; a limit that is left out keeps its value. */
export type QuotaChange = { readonly [K in keyof Quota]?: Quota[K] | undefined }

export const withChange = (quota: Quota, change: QuotaChange): Quota => ({
  calls_per_day: change.calls_per_day ?? quota.calls_per_day,
  storage_bytes: change.storage_bytes ?? quota.storage_bytes,
  workers: change.workers ?? quota.workers,
  streams: change.streams ?? quota.streams,
})

/** The current usage of a tenant, in the units of its quota. */
export const TenantUse = z.strictObject({
  calls_today: z.int(),
  storage_bytes: z.int(),
  /** The part of `storage_bytes` that calls have left, as it was at most a second ago. */
  calls_bytes: z.int(),
  /** The part of `storage_bytes` that skills keep. */
  skills_bytes: z.int(),
  workers: z.int(),
  streams: z.int(),
  /** Calls that have ended, over the tenant's whole life. */
  calls_ended: z.int(),
  /** Calls that have not ended, and the runs that have such calls. */
  calls_open: z.int(),
  runs_open: z.int(),
  /** Names the key of the edge under which all its secrets are sealed. */
  vault_key: z.string(),
})
export type TenantUse = z.infer<typeof TenantUse>

/** A tenant's quota and what it uses of it, as its own operators see both. */
export const TenantUsage = z.strictObject({ tenant: z.string(), quota: Quota, use: TenantUse })
export type TenantUsage = z.infer<typeof TenantUsage>
