// A version of a tenant's policy set under the floor, made ready to be asked and never to be enforced: the tenant's directory of now, with
// other policies.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { Loaded } from '../directory/directory.ts'
import { readyUnderFloor } from '../policy/built-in.ts'

/** What a version says never changes; they go with the directory that they are for. */
const candidates = new WeakMap<Loaded, Map<number, Loaded>>()
const KEPT = 4

export async function candidateOf(env: Env, directory: Loaded, version: number): Promise<Result<Loaded>> {
  if (version === directory.policyVersion) return ok(directory)
  const known = candidates.get(directory) ?? new Map<number, Loaded>()
  candidates.set(directory, known)
  const found = known.get(version)
  if (found !== undefined) return ok(found)
  const set = await tenantObject(env, directory.tenant).policyVersion(version)
  if (set === undefined) return err(failure('not_found', `no version ${version} of the policy set`))
  const ready = readyUnderFloor(set.texts)
  if (!ready.ok) return ready
  const candidate = { ...directory, policies: ready.value, policyVersion: version }
  if (known.size >= KEPT) known.clear()
  known.set(version, candidate)
  return ok(candidate)
}
