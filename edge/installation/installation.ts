// Authenticates the operator of the installation by its one key, whose hash is in the edge's
// environment, and asks the installation's own policies, never a tenant's.

import { timingSafeEqual } from 'node:crypto'
import tenants from '../../policies/installation/tenants.cedar'
import { failure } from '../../shared/failures.ts'
import { keyHash, PATTERNS } from '../../shared/ids.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { bearerOf, UNKNOWN_KEY } from '../http/intake.ts'
import type { PolicySet } from '../policy/engine.ts'
import { about, ask, compile } from '../policy/engine.ts'

let compiled: PolicySet | undefined

function policies(): PolicySet {
  if (compiled !== undefined) return compiled
  const set = compile({ 'installation.tenants': tenants })
  if (!set.ok) throw new Error(`our own policies do not compile: ${set.error.detail}`) // a bug
  compiled = set.value
  return compiled
}

/**
 * Whether the request carries the installation key and its policy permits the action. A tenant's
 * key is refused like an unknown one.
 */
export async function authorizeInstallation(
  request: Request,
  env: Env,
  action: string | null,
  tenant: string,
): Promise<Result<null>> {
  const key = bearerOf(request) ?? ''
  const hash = env.INSTALLATION_KEY_HASH ?? ''
  if (!PATTERNS.installationKey.test(key) || !PATTERNS.sha256.test(hash)) return err(UNKNOWN_KEY)
  if (!timingSafeEqual(Buffer.from(keyHash(key), 'hex'), Buffer.from(hash, 'hex'))) return err(UNKNOWN_KEY)
  const subject = {
    principal: { type: 'InstallationOperator', id: 'root' },
    action: action ?? '',
    resource: { type: 'Installation', id: 'this' },
    entities: [],
  }
  const { allowed, policies: why } = ask(about(policies(), subject), { tenant })
  if (allowed) return ok(null)
  const reasons = why.map((id) => policies().rules.get(id)?.reason ?? id).join('. ')
  return err(
    failure('forbidden', `policy does not permit \`${action}\`${reasons === '' ? '' : `: ${reasons}`}`),
  )
}
