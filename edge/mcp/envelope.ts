// Reads the body of a request to the MCP endpoint: bytes → JSON → one JSON-RPC message of a known
// era, or the error to answer (M02). Pure. Later code trusts what it returns.

import { z } from 'zod'
import { BODY_BOUNDS, type Json, parseJson } from '../../shared/bytes/json.ts'
import { CallOrigin } from '../../shared/evidence/origin.ts'
import type { Code } from '../../shared/failures.ts'
import { RunId } from '../../shared/fields.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { checkModernHeaders, versionHeader } from './headers.ts'
import { LEGACY, META, MODERN, OURS, RPC, TASKS } from './protocol.ts'
import { type Id, type RpcError, rpcError } from './rpc.ts'

export type JsonObject = { readonly [key: string]: Json }

/** The members of `_meta` in which a request describes itself. */
export type RequestMeta = {
  readonly progressToken: Id | null
  /** Whether the client supports the Tasks extension. */
  readonly tasks: boolean
  /** Whether the client can open a page for its user. */
  readonly opensUrls: boolean
  /** The name that the client gives itself. It decides nothing. */
  readonly client: string | null
  readonly ours: OurMeta
}
export type McpRequest = {
  readonly kind: 'request'
  readonly id: Id
  readonly method: string
  readonly params: JsonObject
  readonly meta: RequestMeta
} & (
  | { readonly era: 'modern'; readonly revision: string }
  | { readonly era: 'legacy'; readonly revision: string }
)
export type McpMessage =
  | McpRequest
  | {
      readonly kind: 'notification'
      readonly era: 'modern' | 'legacy'
      readonly method: string
      readonly params: JsonObject
    }
  /** A legacy client's answer to a request of ours. We send none, so it is ignored. */
  | { readonly kind: 'response' }
/** `id` is null if none could be read. */
export type Refusal = { readonly id: Id | null; readonly error: RpcError }

export const SESSION = /^[A-Za-z0-9_.-]{1,64}$/
const OurMeta = z.strictObject({
  run: RunId.optional(),
  session: z.string().regex(SESSION, 'must have 1 to 64 characters of `A-Z a-z 0-9 _ . -`').optional(),
  idempotencyKey: z
    .string()
    .regex(/^[\x21-\x7e]{1,255}$/, 'has 1 to 255 visible ASCII characters')
    .optional(),
  reason: CallOrigin.shape.reason,
  waitS: z.int().min(0).max(LIMITS.mcp_hold_most_s).optional(),
})
export type OurMeta = z.infer<typeof OurMeta>

/** A name of another form is dropped, because the name is signed and shown. */
const CLIENT = /^[\x20-\x7e]+$/

const NOT_JSON: ReadonlySet<Code> = new Set(['not_json', 'json_bad_text'])
const refuse = (id: Id | null, error: RpcError): Result<never, Refusal> => err({ id, error })
const malformed = (id: Id | null, message: string): Result<never, Refusal> =>
  refuse(id, rpcError(400, RPC.invalidRequest, message))

export function readMessage(bytes: Uint8Array, headers: Headers): Result<McpMessage, Refusal> {
  const parsed = parseJson(bytes, { ...BODY_BOUNDS, bytes: bytes.byteLength })
  if (!parsed.ok) {
    const { code, detail } = parsed.error
    const kind = NOT_JSON.has(code) ? RPC.parse : RPC.invalidRequest
    return refuse(null, rpcError(400, kind, `the body is refused: ${detail}`, { code }))
  }
  const body = parsed.value
  if (Array.isArray(body)) return malformed(null, 'send one message; batches are not supported')
  if (!isObject(body)) return malformed(null, 'the body must be one JSON-RPC message')
  const id = idOf(body['id'])
  if (body['jsonrpc'] !== '2.0') return malformed(id ?? null, '`jsonrpc` must be "2.0"')
  if (id === undefined && 'id' in body)
    return malformed(null, `\`id\` must be an integer or a string of up to ${LIMITS.mcp_id_chars} characters`)
  const { method, params = {} } = body
  if (method === undefined && ('result' in body || 'error' in body))
    return isModernHeader(headers)
      ? malformed(id ?? null, 'this server sends no requests, so it accepts no responses')
      : ok({ kind: 'response' })
  if (typeof method !== 'string' || method.length > 128)
    return malformed(id ?? null, '`method` must be a string of up to 128 characters')
  if (!isObject(params)) return malformed(id ?? null, '`params` must be an object')
  return readEra({ id, method, params }, headers)
}

type Parts = { readonly id: Id | undefined; readonly method: string; readonly params: JsonObject }

/** A request whose `_meta` names a revision is modern; the headers have to agree with it. */
function readEra({ id, method, params }: Parts, headers: Headers): Result<McpMessage, Refusal> {
  const { _meta: meta = {} } = params
  if (!isObject(meta))
    return refuse(id ?? null, rpcError(400, RPC.invalidParams, '`_meta` must be an object'))
  if (META.version in meta) return readModern({ id, method, params }, meta, headers)
  if (isModernHeader(headers))
    return refuse(
      id ?? null,
      rpcError(
        400,
        RPC.invalidParams,
        `\`params._meta\` must name \`${META.version}\` and \`${META.capabilities}\``,
      ),
    )
  const version = versionHeader(headers) ?? '2025-03-26' // the specification's default
  if (method !== 'initialize' && !isLegacy(version))
    return malformed(
      id ?? null,
      `this protocol version is not supported: use one of ${[MODERN, ...LEGACY].join(', ')}`,
    )
  if (id === undefined) return ok({ kind: 'notification', era: 'legacy', method, params })
  const read = readMeta(meta, false)
  return read.ok
    ? ok({ kind: 'request', era: 'legacy', revision: version, id, method, params, meta: read.value })
    : refuse(id, rpcError(200, RPC.invalidParams, read.error))
}

function readModern(
  { id, method, params }: Parts,
  meta: JsonObject,
  headers: Headers,
): Result<McpMessage, Refusal> {
  const { [META.version]: version } = meta
  if (typeof version !== 'string')
    return refuse(id ?? null, rpcError(400, RPC.invalidParams, `\`${META.version}\` must be a string`))
  const different = checkModernHeaders(headers, { version, method, params })
  if (different !== undefined) return refuse(id ?? null, rpcError(400, RPC.headerMismatch, different))
  if (version !== MODERN)
    return refuse(
      id ?? null,
      rpcError(400, RPC.unsupportedVersion, 'this protocol version is not supported', {
        supported: [MODERN],
        requested: version.slice(0, LIMITS.mcp_id_chars),
      }),
    )
  if (id === undefined) return ok({ kind: 'notification', era: 'modern', method, params })
  if (!isObject(meta[META.capabilities] ?? null))
    return refuse(id, rpcError(400, RPC.invalidParams, `\`${META.capabilities}\` must be an object`))
  const read = readMeta(meta, true)
  return read.ok
    ? ok({ kind: 'request', era: 'modern', revision: version, id, method, params, meta: read.value })
    : refuse(id, rpcError(400, RPC.invalidParams, read.error))
}

/** Capabilities count for this request only, and only a modern request has them. */
function readMeta(meta: JsonObject, modern: boolean): Result<RequestMeta, string> {
  const progressToken = meta['progressToken'] === undefined ? null : idOf(meta['progressToken'])
  if (progressToken === undefined) return err('`progressToken` must be an integer or a short string')
  const own = Object.entries(meta).flatMap(([key, value]) =>
    key.startsWith(OURS) ? [[key.slice(OURS.length), value] as const] : [],
  )
  const ours = OurMeta.safeParse(Object.fromEntries(own))
  if (!ours.success) {
    const [issue] = ours.error.issues
    const key = issue?.code === 'unrecognized_keys' ? issue.keys[0] : issue?.path[0]
    return err(`\`_meta\`: \`${OURS}${String(key).slice(0, 64)}\` is unknown or has the wrong form`)
  }
  const capabilities = modern ? objectAt(meta, META.capabilities) : undefined
  const elicitation = objectAt(capabilities, 'elicitation')
  const name = objectAt(meta, META.clientInfo)?.['name']
  return ok({
    progressToken,
    tasks: objectAt(objectAt(capabilities, 'extensions'), TASKS) !== undefined,
    opensUrls: objectAt(elicitation, 'url') !== undefined,
    client: typeof name === 'string' && CLIENT.test(name) ? name.slice(0, LIMITS.mcp_client_chars) : null,
    ours: ours.data,
  })
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const objectAt = (value: JsonObject | undefined, key: string): JsonObject | undefined => {
  const inner = value?.[key]
  return isObject(inner) ? inner : undefined
}

/** The strict parser has refused integers beyond 2^53; fractions are refused here. */
function idOf(value: unknown): Id | undefined {
  if (typeof value === 'string') return value.length <= LIMITS.mcp_id_chars ? value : undefined
  return Number.isInteger(value) ? (value as number) : undefined
}

const isLegacy = (version: string): boolean => LEGACY.some((one) => one === version)
const isModernHeader = (headers: Headers): boolean => {
  const version = versionHeader(headers) ?? ''
  return /^\d{4}-\d{2}-\d{2}$/.test(version) && version >= MODERN
}
