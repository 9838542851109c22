// Reads what an issuer publishes: its discovery document (OpenID Connect Discovery 1.0) and its key
// set (RFC 7517). Keys that we can't use are skipped, and so are private and symmetric ones. Pure.

import type { Json } from '../../shared/bytes/json.ts'
import { parseJson } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import { PublicJwk } from '../../shared/wire/issuers.ts'

const BOUNDS = { bytes: LIMITS.key_set_bytes, depth: 16, nodes: 10_000 }

/** The address of the discovery document (Discovery §4.1). */
export const discoveryAddress = (issuer: string): string =>
  `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`

/**
 * The address of the key set; undefined if the document is malformed or describes another issuer
 * (Discovery §4.3), so that no issuer can stand in for another.
 */
export function keySetAddress(bytes: Uint8Array, issuer: string): string | undefined {
  const document = objectIn(bytes)
  const { issuer: described, jwks_uri: uri } = document ?? {}
  return described === issuer && typeof uri === 'string' ? uri : undefined
}

/** The usable keys; undefined if this is no key set. */
export function keysIn(bytes: Uint8Array): PublicJwk[] | undefined {
  const { keys } = objectIn(bytes) ?? {}
  if (!Array.isArray(keys)) return undefined
  return keys.slice(0, LIMITS.issuer_keys).flatMap((key) => {
    const read = PublicJwk.safeParse(key)
    return read.success ? [read.data] : []
  })
}

function objectIn(bytes: Uint8Array): Record<string, Json> | undefined {
  const parsed = parseJson(bytes, BOUNDS)
  const isObject = parsed.ok && typeof parsed.value === 'object' && parsed.value !== null
  return isObject && !Array.isArray(parsed.value) ? (parsed.value as Record<string, Json>) : undefined // just checked
}
