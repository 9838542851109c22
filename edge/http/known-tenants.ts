// An isolate's cache of existing tenants, asked before the edge makes an object for a name that a stranger sent.

import { PATTERNS } from '../../shared/ids.ts'
import type { Env } from '../bindings.ts'
import { DEFAULT_TENANT, installationObject } from '../bindings.ts'

/** If another isolate deletes the tenant, the tombstone in its object refuses requests. */
const known = new Set<string>([DEFAULT_TENANT])

/** Asks the registry about an unknown name each time; a no is not cached. */
export async function isTenant(env: Env, tenant: string): Promise<boolean> {
  if (known.has(tenant)) return true
  if (!PATTERNS.tenant.test(tenant) || !(await installationObject(env).has(tenant))) return false
  known.add(tenant)
  return true
}

export const forgetTenant = (tenant: string): void => void known.delete(tenant)
