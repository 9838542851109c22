// The session of an operator's browser: a cookie with a token of which only a hash is stored, and a
// form token derived from it (K05). It authenticates the operator; policy authorizes each request,
// with the same question as for the API.

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { failure } from '../../shared/failures.ts'
import { keyHash, parseKey } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { identityOf, tenantObject } from '../bindings.ts'
import { directoryOf, SUSPENDED } from '../directory/directory.ts'
import type { Identified } from '../http/intake.ts'
import { isTenant } from '../http/known-tenants.ts'

/**
 * `token` is the cookie's secret. `form` is the token of its forms: a hash other than the stored
 * one.
 */
export type Session = Identified & { token: string; form: string }

const hashed = (use: 'session' | 'form', token: string): string =>
  createHash('sha256').update(`console ${use} ${token}`).digest('base64url')

const isHttps = (env: Env): boolean => identityOf(env).publicUrl.startsWith('https:')
/**
 * `__Host-`: browsers accept it only from this host over https, so no sibling domain can set one.
 */
const cookieName = (env: Env): string => (isHttps(env) ? '__Host-countersign' : 'countersign')

function cookie(env: Env, value: string, maxAgeS: number): string {
  const secure = isHttps(env) ? '; Secure' : ''
  return `${cookieName(env)}=${value}; Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${secure}`
}

export const noCookie = (env: Env): string => cookie(env, '', 0)

const TOKEN = /^([a-z][a-z0-9-]{0,31})\.([A-Za-z0-9_-]{43})$/

/** Two cookies of the name count as none: an attacker may have set one of them. */
async function tokenOf(request: Request, env: Env): Promise<{ tenant: string; token: string } | undefined> {
  const name = `${cookieName(env)}=`
  const values = (request.headers.get('cookie') ?? '').split(/; */).filter((pair) => pair.startsWith(name))
  const [, tenant, token] = TOKEN.exec(values.length === 1 ? (values[0] ?? '').slice(name.length) : '') ?? []
  return tenant === undefined || token === undefined || !(await isTenant(env, tenant))
    ? undefined
    : { tenant, token }
}

const SIGNED_OUT = failure('signed_out', 'you are not signed in, or your session has ended')

/** Checked on every request: a key that was rotated or revoked ends its sessions at once. */
export async function sessionOf(
  request: Request,
  env: Env,
  use: 'used' | 'watched' = 'used',
): Promise<Result<Session>> {
  const given = await tokenOf(request, env)
  if (given === undefined) return err(SIGNED_OUT)
  const { tenant, token } = given
  const [hash, directory] = await Promise.all([
    tenantObject(env, tenant).sessionKey(hashed('session', token), use),
    directoryOf(env, tenant),
  ])
  const owner = hash === null ? undefined : directory.keys.get(hash)
  if (owner === undefined || owner.kind !== 'operator') return err(SIGNED_OUT)
  if (directory.state === 'suspended') return err(SUSPENDED)
  return ok({ directory, principal: owner.principal, worker: null, token, form: hashed('form', token) })
}

/**
 * Opens a session with a new token and returns its cookie. A token that the browser sent never
 * becomes a session (session fixation).
 */
export async function signIn(request: Request, env: Env, key: string): Promise<Result<string>> {
  const parsed = parseKey(key)
  if (parsed === undefined || parsed.kind !== 'operator' || !(await isTenant(env, parsed.tenant)))
    return err(failure('unauthenticated', 'this is not an operator’s key'))
  const token = randomBytes(32).toString('base64url')
  const tenant = tenantObject(env, parsed.tenant)
  const opened = await tenant.signIn(parsed.id, keyHash(key), hashed('session', token))
  if (!opened.ok) return opened
  if ((await directoryOf(env, parsed.tenant)).state === 'suspended') return err(SUSPENDED)
  const before = await tokenOf(request, env)
  if (before !== undefined) await tenantObject(env, before.tenant).signOut(hashed('session', before.token))
  return ok(cookie(env, `${parsed.tenant}.${token}`, LIMITS.console_ms / 1000))
}

export async function signOut(env: Env, { directory, token }: Session): Promise<void> {
  await tenantObject(env, directory.tenant).signOut(hashed('session', token))
}

/** Whether a form's token shows that it was served to this session. */
export function isFormOf({ form }: Session, token: string | null): boolean {
  const [expected, given] = [Buffer.from(form), Buffer.from(token ?? '')]
  return expected.byteLength === given.byteLength && timingSafeEqual(expected, given)
}
