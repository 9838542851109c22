// Which names are tenants, as an isolate knows it: asked before an object is made for a name that a stranger sent.

import { PATTERNS } from '../shared/ids.ts'
import type { Env } from './env.ts'
import { DEFAULT_TENANT, installationObject } from './env.ts'

/** One that is deleted by another isolate is refused by what is left of its object. */
const known = new Set<string>([DEFAULT_TENANT])

/** The registry is asked about an unknown name each time, and nothing is kept of one. */
export async function isTenant(env: Env, tenant: string): Promise<boolean> {
  if (known.has(tenant)) return true
  if (!PATTERNS.tenant.test(tenant) || !(await installationObject(env).has(tenant))) return false
  known.add(tenant)
  return true
}

export const forgetTenant = (tenant: string): void => void known.delete(tenant)
