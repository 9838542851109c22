// A candidate for a rehearsal: the tenant's current directory with another version of its policy
// set, compiled with the floor. It decides nothing that is enforced.

import { failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { tenantObject } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { compileWithFloor } from '../policy/built-in.ts'

/** Versions are immutable, so candidates are cached as long as the directory they are made from. */
const candidates = new WeakMap<LoadedDirectory, Map<number, LoadedDirectory>>()
const CACHED_PER_DIRECTORY = 4

export async function candidateOf(
  env: Env,
  directory: LoadedDirectory,
  version: number,
): Promise<Result<LoadedDirectory>> {
  if (version === directory.policyVersion) return ok(directory)
  const cached = candidates.get(directory) ?? new Map<number, LoadedDirectory>()
  candidates.set(directory, cached)
  const known = cached.get(version)
  if (known !== undefined) return ok(known)
  const set = await tenantObject(env, directory.tenant).policyVersion(version)
  if (set === undefined) return err(failure('not_found', `no version ${version} of the policy set`))
  const ready = compileWithFloor(set.texts)
  if (!ready.ok) return ready
  const candidate = { ...directory, policies: ready.value, policyVersion: version }
  if (cached.size >= CACHED_PER_DIRECTORY) cached.clear()
  cached.set(version, candidate)
  return ok(candidate)
}
