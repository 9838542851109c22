// The trust boundary for requests: small checks that identify the caller, bound the body, parse it
// and validate it. The router calls them in a fixed order, and later code uses their parsed
// results.

import type { z } from 'zod'
import type { Json } from '../../shared/bytes/json.ts'
import { BODY_BOUNDS, parseJson } from '../../shared/bytes/json.ts'
import type { Actor } from '../../shared/evidence/actor.ts'
import {
  readSignatureInput,
  type SignatureInput,
  signatureHolds,
} from '../../shared/evidence/http-signature.ts'
import type { CallOrigin } from '../../shared/evidence/origin.ts'
import { failure } from '../../shared/failures.ts'
import { parseKey } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Route } from '../../shared/routes/route.ts'
import { readAs } from '../../shared/schema/field-errors.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import {
  directoryFrom,
  directoryOf,
  directoryWith,
  gatekeeper,
  knownVersion,
  principalOf,
  SUSPENDED,
} from '../directory/directory.ts'
import type { AgentPrincipal, LoadedDirectory, Principal } from '../directory/loaded-directory.ts'
import { isToken } from '../tokens/token.ts'
import type { EnrolledWorker } from '../workers/request-freshness.ts'
import { parseForm } from './forms.ts'
import { isTenant } from './known-tenants.ts'
import { identifyByToken, namedTenant } from './token-bearer.ts'

export type Identified = {
  directory: LoadedDirectory
  principal: AgentPrincipal | Principal
  worker: EnrolledWorker | null
  /** The actor behind an agent that authenticated with a token. */
  actor?: Actor
}

/** The part of a proposal's origin that its caller's token decides. */
export const originOfCaller = ({ actor }: Identified): CallOrigin => (actor === undefined ? {} : { actor })

export const UNKNOWN_KEY = failure('unauthenticated', 'the key is missing, unknown or revoked')
const UNSIGNED = failure('bad_signature', 'no enrolled worker signed this request')
/** Longer than any valid key or token, so that an overlong token gets the refusal of a token. */
const BEARER = /^Bearer (\S{1,16384})$/

export const bearerOf = (request: Request): string | undefined =>
  BEARER.exec(request.headers.get('authorization') ?? '')?.[1]

/**
 * Returns the principal that owns the key, or the agent that the token authenticates, and the
 * directory as it is at this request.
 */
export async function identifyByBearer(request: Request, env: Env): Promise<Result<Identified>> {
  const bearer = bearerOf(request)
  if (bearer === undefined || !isToken(bearer)) return identifyByKey(bearer, env)
  const identified = await identifyByToken(bearer, namedTenant(request), env)
  return identified.ok ? ok({ ...identified.value, worker: null }) : identified
}

async function identifyByKey(key: string | undefined, env: Env): Promise<Result<Identified>> {
  const parsed = key === undefined ? undefined : parseKey(key)
  if (key === undefined || parsed === undefined || !(await isTenant(env, parsed.tenant)))
    return err(UNKNOWN_KEY)
  const directory = await directoryOf(env, parsed.tenant)
  const principal = principalOf(directory, key)
  if (principal === undefined) return err(UNKNOWN_KEY)
  return directory.state === 'suspended' ? err(SUSPENDED) : ok({ directory, principal, worker: null })
}

/** The enrolled worker that a request names. Its signature is not checked here. */
export async function claimedWorker(request: Request, env: Env) {
  const claimed = readSignatureInput(request.headers.get('signature-input') ?? undefined)
  if (claimed === undefined || !(await isTenant(env, claimed.tenant))) return err(UNSIGNED)
  const worker = (await directoryWith(env, claimed.tenant, claimed.worker)).workers.get(claimed.worker)
  return worker === undefined ? err(UNSIGNED) : ok({ claimed, worker })
}

const rowNow = async (env: Env, { tenant, worker }: SignatureInput) =>
  (await directoryOf(env, tenant)).workers.get(worker)?.row

/** Returns the worker that signed method, authority, path and body. */
export async function identifyBySignature(
  request: Request,
  body: Uint8Array,
  env: Env,
): Promise<Result<Identified>> {
  const header = (name: string): string | undefined => request.headers.get(name) ?? undefined
  const named = await claimedWorker(request, env)
  if (!named.ok) return named
  const { claimed, worker } = named.value
  const { tenant } = claimed
  const { host, pathname } = new URL(request.url)
  const signed = { method: request.method, authority: host, path: pathname, body }
  const headers = { digest: header('content-digest'), signature: header('signature') }
  const isBy = (x: string): boolean => signatureHolds(signed, claimed, headers, x)
  // The cached directory may have an earlier key of the worker.
  const { x } = isBy(worker.row.x) ? worker.row : ((await rowNow(env, claimed)) ?? worker.row)
  if (!isBy(x)) return err(UNSIGNED)
  const admitted = await gatekeeper(env, tenant).admitWorker(claimed, knownVersion(tenant))
  if (!admitted.ok) return admitted
  const directory = directoryFrom(identityOf(env), tenant, admitted.value)
  const present = directory.workers.get(claimed.worker) // its tiers may have changed in the meantime, and its key
  return present === undefined || present.row.x !== x
    ? err(UNSIGNED)
    : ok({ directory, principal: present.principal, worker: present.row })
}

/** Bounds the headers: the runtime lets far more through than any caller needs (G10). */
export function headersFit(request: Request): Result<true> {
  let size = 0
  for (const [name, value] of request.headers) size += name.length + value.length
  return size <= LIMITS.headers_bytes
    ? ok(true)
    : err(failure('headers_too_large', `the headers have more than ${LIMITS.headers_bytes} bytes`))
}

/** Whether there is no body, or a small announced one. The runtime reads no more than announced. */
export const isSmall = ({ body, headers }: Request): boolean =>
  body === null || Number(headers.get('content-length') ?? Number.NaN) <= LIMITS.unknown_body_bytes

/** Reads the body. It counts the bytes itself, and gives up on a slow sender (G10). */
export async function readBody(
  request: Request,
  limit: number = LIMITS.body_bytes,
): Promise<Result<Uint8Array>> {
  if (request.body === null) return ok(new Uint8Array())
  if (Number(request.headers.get('content-length') ?? 0) > limit) return tooLarge(limit)
  if ((request.headers.get('content-encoding') ?? 'identity') !== 'identity')
    return err(failure('unsupported_media_type', 'compressed bodies are refused'))
  const slow = Promise.withResolvers<Result<Uint8Array>>()
  const timer = setTimeout(
    () => slow.resolve(err(failure('body_too_slow', `the body was not complete after ${LIMITS.body_ms} ms`))),
    LIMITS.body_ms,
  )
  const whole = request.headers.has('content-length')
    ? request.arrayBuffer().then((buffer): Result<Uint8Array> => ok(new Uint8Array(buffer)))
    : readCounted(request.body as ReadableStream<Uint8Array>, limit)
  try {
    return await Promise.race([
      whole.catch(() => err(failure('not_json', 'the connection ended before the body was complete'))),
      slow.promise,
    ])
  } finally {
    clearTimeout(timer)
  }
}

const tooLarge = (limit: number) => err(failure('body_too_large', `more than ${limit} bytes`))

async function readCounted(body: ReadableStream<Uint8Array>, limit: number): Promise<Result<Uint8Array>> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > limit) return tooLarge(limit)
    chunks.push(chunk)
  }
  return ok(Buffer.concat(chunks))
}

const JSON_TYPE = /^application\/json(?:;\s*charset=utf-8)?$/i

/** `bytes` comes from `readBody`, which has bounded it. */
export function parseBody(request: Request, bytes: Uint8Array, schema: z.ZodType): Result<unknown> {
  if (!JSON_TYPE.test(request.headers.get('content-type') ?? ''))
    return err(failure('unsupported_media_type', 'the body must be JSON'))
  const parsed = parseJson(bytes, { ...BODY_BOUNDS, bytes: bytes.byteLength })
  return parsed.ok ? parseAs(schema, parsed.value, 'body') : parsed
}

const FORM_TYPE = /^application\/x-www-form-urlencoded(?:;|$)/i

/** `undefined` if the body is not a form, or longer than any form of our pages. */
export async function readForm(
  request: Request,
  lists?: readonly string[],
): Promise<Result<URLSearchParams | undefined>> {
  if (!FORM_TYPE.test(request.headers.get('content-type') ?? '')) return ok(undefined)
  const body = await readBody(request)
  return body.ok && body.value.byteLength < LIMITS.page_edit_bytes
    ? parseForm(new TextDecoder().decode(body.value), lists)
    : ok(undefined)
}

/** Applies `schema`. The error lists each place that does not match. */
export function parseAs(
  schema: z.ZodType,
  value: Json | Record<string, string>,
  part: string,
): Result<unknown> {
  const read = readAs(schema, value)
  return read.ok
    ? read
    : err(failure('invalid_request', `the ${part} does not match what this route expects`, read.error))
}

/** Matches the ids in a path before any lookup: a malformed id is answered like an unknown one. */
export function parseParams(route: Route, params: Record<string, string>): Result<unknown> {
  if (route.params === undefined) return ok({})
  const read = route.params.safeParse(params)
  return read.success ? ok(read.data) : err(failure('not_found', 'an id or a name in the path is malformed'))
}

/**
 * Parses the headers that the route reads. A repeated header arrives as one comma-separated list,
 * which no schema of a single value accepts (G03). The runtime reports an empty header as a missing
 * one.
 */
export function parseHeaders({ headers: schema }: Route, request: Request): Result<unknown> {
  if (schema === undefined) return ok({})
  const sent = Object.keys(schema.shape).flatMap((name) => {
    const value = request.headers.get(name)
    return value === null ? [] : [[name, value]]
  })
  return parseAs(schema, Object.fromEntries(sent) as Record<string, string>, 'headers') // pairs of strings, as above
}

/** The seconds of `Prefer: wait=N`. */
export function preferredWait({ headers }: Request): number | undefined {
  const wait = /(?:^|[\s,;])wait=([0-9]{1,4})(?:$|[\s,;])/.exec(headers.get('prefer') ?? '')?.[1]
  return wait === undefined ? undefined : Number(wait)
}

export const waitMs = (request: Request): number =>
  Math.min(preferredWait(request) ?? 0, LIMITS.wait_s) * 1000

/** Accepts a structured-field string or a bare token of up to 255 visible characters. */
export function idempotencyKey(request: Request): Result<string | null> {
  const header = request.headers.get('idempotency-key')
  if (header === null) return ok(null)
  const quoted = /^"([\x20\x21\x23-\x5b\x5d-\x7e]{1,255})"$/.exec(header)?.[1]
  const value = quoted ?? /^[\x21\x23-\x7e]{1,255}$/.exec(header)?.[0]
  return value === undefined
    ? err(failure('invalid_request', 'an `Idempotency-Key` has 1 to 255 visible characters'))
    : ok(value)
}

/**
 * The agent of a request. An agent may name only itself, so that it learns nothing of others; an
 * operator has to name one.
 */
export function namedAgent(
  { principal, directory }: Identified,
  name: string | undefined,
): Result<AgentPrincipal> {
  if (principal.kind === 'Agent') {
    return name === undefined || name === principal.name
      ? ok(principal as AgentPrincipal) // its `kind` says so
      : err(failure('forbidden', 'an agent can only name itself: leave `agent` out'))
  }
  const agent = name === undefined ? undefined : directory.agents.get(name)
  if (agent !== undefined) return ok(agent)
  return err(
    name === undefined
      ? failure(
          'invalid_request',
          'name the agent whose call it would be: `agent`, on the command line `--agent`',
        )
      : failure('not_found', `no agent \`${name}\``),
  )
}
