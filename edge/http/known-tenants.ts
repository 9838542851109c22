// Caches per isolate which tenants exist, so that no stranger's request makes the edge create an
// object for an arbitrary name.

import { PATTERNS } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, installationObject } from '../bindings.ts'

/** If another isolate deletes the tenant, the tombstone in its object refuses requests. */
const known = new Set<string>([DEFAULT_TENANT])

/** Caches only existing tenants: the registry is queried each time for an unknown name. */
export async function isTenant(env: Env, tenant: string): Promise<boolean> {
  if (known.has(tenant)) return true
  if (!PATTERNS.tenant.test(tenant) || !(await installationObject(env).has(tenant))) return false
  known.add(tenant)
  return true
}

export const forgetTenant = (tenant: string): void => void known.delete(tenant)
