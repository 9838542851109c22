// The verdict on the texts of a bundle and a key file, as the command line gives it: the first check
// that fails, or null. In Node, and for workerd.test.ts in workerd.

import { EVIDENCE_BOUNDS, parseJson } from '../../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import { type Keys, readKeys } from '../../../shared/evidence/keys.ts'

export function firstFailure(bundle: string, keys: string): string | null {
  const parsed = parseJson(Buffer.from(keys), EVIDENCE_BOUNDS)
  if (!parsed.ok) return 'the key file can be read'
  const trusted = readKeys(parsed.value)
  return trusted.ok ? firstFailureBy(trusted.value, Buffer.from(bundle)) : 'the key file is well-formed'
}

export function firstFailureBy(keys: Keys, bundle: Uint8Array): string | null {
  const parsed = parseJson(bundle, EVIDENCE_BOUNDS)
  if (!parsed.ok) return 'the bundle can be read'
  const read = Bundle.safeParse(parsed.value)
  if (!read.success) return 'the bundle is well-formed'
  return verifyBundle(read.data, keys).checks.find(({ ok }) => !ok)?.name ?? null
}

/** The names of all checks of this bundle. */
export const checkNames = (bundle: Bundle, keys: Keys): string[] =>
  verifyBundle(bundle, keys).checks.map(({ name }) => name)
