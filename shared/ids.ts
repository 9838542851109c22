// Ids and API keys. An id leads to its object without an index: a call id contains its run, an API
// key its tenant.
//
//   run_<ulid>            a run; the id names its RunObject; only the edge mints them, with a check
//   call_<ulid>_<n>       the n-th call of that run;  apr_… its approval, att_… its attestation
//   cs_<kind>_<tenant>_<ulid>_<secret>   an API key (agent, operator) or enrolment token (enrol)
//   cs_installation_<ulid>_<secret>      the key of the installation's operator, who is above tenants

import { createHash, randomBytes } from 'node:crypto'

const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const ULID = '[0-9A-HJKMNP-TV-Z]{26}'
const TENANT = '[a-z][a-z0-9-]{0,31}'

/** The name of the installation's log, so no tenant may have this name. */
export const INSTALLATION_LOG = 'installation'

export const PATTERNS = {
  tenant: new RegExp(`^${TENANT}$`),
  /** At most `LIMITS.tool_name_chars`. */
  tool: /^[a-z][a-z0-9_-]{0,49}$/,
  name: /^[a-z][a-z0-9_.-]{0,63}$/,
  /** No `_`, so that the first one in `<upstream>_<tool>` ends the upstream's name. */
  upstream: /^[a-z][a-z0-9-]{0,23}$/,
  run: new RegExp(`^run_${ULID}$`),
  call: new RegExp(`^call_${ULID}_[1-9][0-9]{0,6}$`),
  approval: new RegExp(`^apr_${ULID}_[1-9][0-9]{0,6}$`),
  attestation: new RegExp(`^att_${ULID}_[1-9][0-9]{0,6}$`),
  worker: new RegExp(`^wrk_${ULID}$`),
  standing: new RegExp(`^std_${ULID}$`),
  key: new RegExp(`^cs_(agent|operator|enrol)_(${TENANT})_(${ULID})_([0-9A-HJKMNP-TV-Z]{52})$`),
  installationKey: new RegExp(`^cs_installation_${ULID}_[0-9A-HJKMNP-TV-Z]{52}$`),
  sha256: /^[0-9a-f]{64}$/,
} as const

/** Tools that Countersign itself offers to agents, so no registered tool may have such a name. */
export const RESERVED_TOOL_PREFIX = 'countersign_'

/**
 * Crockford base 32 of `bytes`, most significant bit first, zero-padded at the front to whole
 * characters.
 */
export function base32(bytes: Uint8Array): string {
  let value = 0n
  for (const byte of bytes) value = (value << 8n) | BigInt(byte)
  let text = ''
  for (let left = Math.ceil((bytes.length * 8) / 5); left > 0; left--) {
    text = CROCKFORD.charAt(Number(value & 31n)) + text
    value >>= 5n
  }
  return text
}

/** The number that these characters of `base32` stand for. */
export function base32Number(text: string): bigint {
  let value = 0n
  for (const char of text) value = (value << 5n) | BigInt(CROCKFORD.indexOf(char))
  return value
}

export function ulid(nowMs: number): string {
  const bytes = randomBytes(16)
  for (let i = 5, rest = nowMs; i >= 0; i--, rest = Math.floor(rest / 256)) bytes[i] = rest % 256
  return base32(bytes)
}

export const newStandingId = (nowMs: number): string => `std_${ulid(nowMs)}`
export const newWorkerId = (nowMs: number): string => `wrk_${ulid(nowMs)}`

const numbered = (prefix: string, run: string, n: number): string => `${prefix}_${run.slice(4)}_${n}`
export const callId = (run: string, n: number): string => numbered('call', run, n)
export const approvalId = (run: string, n: number): string => numbered('apr', run, n)
export const attestationId = (run: string, n: number): string => numbered('att', run, n)

/**
 * The run and number in a call, approval or attestation id that was matched against its pattern
 * before.
 */
export function splitId(id: string): { run: string; n: number } {
  const [, ulidPart, n] = id.split('_')
  return { run: `run_${ulidPart}`, n: Number(n) }
}

/** Whether the run shares its object with others. Its id then begins with a bit that no time has. */
export const isSharedRun = (run: string): boolean => run.charAt(4) === '4'

/**
 * The name of a run's object. Runs share one if they are of one agent (three characters of its hash)
 * and of the same 2^20 milliseconds (the first six characters of ten for the time).
 */
export const runObjectName = (tenant: string, run: string): string => `${tenant}/${objectOfRun(run)}`

/** The name of a run's object within the tenant. */
export const objectOfRun = (run: string): string =>
  isSharedRun(run) ? `runs_${run.slice(4, 10)}${run.slice(14, 17)}` : run

export type KeyKind = 'agent' | 'operator' | 'enrol'
export type ParsedKey = { kind: KeyKind; tenant: string; id: string }

/** A new API key, with the id and hash to store. The key itself is shown once and never stored. */
export function mintKey(
  kind: KeyKind,
  tenant: string,
  nowMs: number,
): { key: string; id: string; hash: string } {
  const id = ulid(nowMs)
  const key = `cs_${kind}_${tenant}_${id}_${base32(randomBytes(32))}`
  return { key, id, hash: keyHash(key) }
}

/** The key of an installation's operator. Set-up makes it once; the edge gets only its hash. */
export const mintInstallationKey = (nowMs: number): string =>
  `cs_installation_${ulid(nowMs)}_${base32(randomBytes(32))}`

/**
 * The doorbell queue of a tenant's pool, or of one of its workers. A tenant's name contains no dot,
 * so no two tenants share a queue and a Redis access rule can name the queues of one tenant.
 */
export const doorbellQueue = (tenant: string, poolOrWorker: string): string =>
  `doorbell-${tenant}.${poolOrWorker}`

export function parseKey(text: string): ParsedKey | undefined {
  const match = PATTERNS.key.exec(text)
  if (match === null) return undefined
  const [, kind, tenant, id] = match as unknown as [string, KeyKind, string, string] // four groups, all mandatory
  return { kind, tenant, id }
}

/** A key has 256 bits of entropy, so it needs no slow hash. */
export const keyHash = (key: string): string => createHash('sha256').update(key).digest('hex')
