// Checks an HTTP request of a skill before it is sent: address, method and headers against the
// plan; then adds the credentials. Pure. N09: which addresses a name may resolve to is enforced
// when the connection is made (infra/workerd.ts, edge/platform/outbound-fetch.ts).

import { z } from 'zod'
import { LIMITS } from '../../../shared/limits.ts'
import type { Credential, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { faultInAddress } from '../../platform/outbound-fetch.ts'
import { covers } from '../../tools/planner.ts'

/** As the isolate sends it. */
export const HttpRequestInput = z.strictObject({
  method: z.string(),
  url: z.string(),
  headers: z.string(),
  body: z.instanceof(Uint8Array),
})
export type HttpRequestInput = z.infer<typeof HttpRequestInput>
export type CheckedRequest = {
  readonly host: string
  readonly port: number
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: Uint8Array | null
  /** Names of the secrets whose values were added as headers. */
  readonly credentials: readonly string[]
}
/**
 * denied: the plan does not grant it, and the call ends. failed: it is malformed; the skill gets
 * the error.
 */
export type RequestRefusal = {
  readonly kind: 'denied' | 'failed'
  readonly why: string
  readonly host: string
  readonly port: number
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const VALUE = /^[\x20-\x7e\t]*$/
/** Headers about the connection or the client, which the platform sets. */
const RESERVED_HEADER =
  /^(?:host|connection|content-length|transfer-encoding|te|trailer|upgrade|keep-alive|expect|via|forwarded|proxy-.*|cf-.*|x-forwarded-.*|sec-.*)$/

export function checkRequest(
  input: HttpRequestInput,
  plan: SkillPlan,
  secrets: Readonly<Record<string, string>>,
  loopback: boolean,
): Result<CheckedRequest, RequestRefusal> {
  const { url: text, method } = input
  const unsent = (kind: RequestRefusal['kind'], why: string, host = '', port = 0) =>
    err({ kind, why, host, port })
  // N05: accept only the plain spelling of a URL, because parsers disagree about the others.
  if (text.length > LIMITS.skill_url_chars || !/^https?:\/\/[^\s\\/?#][^\s\\\p{Cc}]*$/iu.test(text))
    return unsent(
      'failed',
      `\`url\` is not a valid address: write \`https://host/path\`, at most ${LIMITS.skill_url_chars} characters`,
    )
  const fault = faultInAddress(text, loopback)
  if (fault !== undefined) return unsent('denied', fault)
  const url = new URL(text)
  const host = url.hostname.replace(/\.$/, '')
  const port = url.port !== '' ? Number(url.port) : url.protocol === 'https:' ? 443 : 80
  if (!plan.egress.hosts.some((pattern) => covers(pattern, `${host}:${port}`)))
    return unsent('denied', `\`${host}:${port}\` is not one of the hosts that its manifest lists`, host, port)
  if (!(plan.executor.methods ?? []).some((granted) => granted === method))
    return unsent(
      'denied',
      `\`${method.slice(0, 16)}\` is not one of the methods that its manifest lists`,
      host,
      port,
    )
  const headers = headersOf(input.headers)
  if (!headers.ok) return unsent('failed', headers.error, host, port)
  const added = (plan.credentials ?? []).filter((one) => one.host === `${host}:${port}`)
  const twice = added.find(({ header }) => headers.value.has(header))
  if (twice !== undefined)
    return unsent('failed', `the header \`${twice.header}\` is added by the edge; leave it out`, host, port)
  for (const credential of added) headers.value.set(credential.header, credentialOf(credential, secrets))
  const isBodiless = method === 'GET' || method === 'HEAD'
  if (isBodiless && input.body.byteLength > 0)
    return unsent('failed', `a ${method} request may have no body`, host, port)
  return ok({
    host,
    port,
    url: url.href,
    method,
    headers: headers.value,
    body: isBodiless ? null : input.body,
    credentials: added.map(({ secret }) => secret),
  })
}

const credentialOf = (
  { secret, format = '{}' }: Credential,
  secrets: Readonly<Record<string, string>>,
): string => format.replace('{}', () => (secrets[secret] ?? '').trim())

function headersOf(text: string): Result<Headers, string> {
  const headers = new Headers()
  if (text.length > LIMITS.skill_header_chars)
    return err(`the headers are longer than ${LIMITS.skill_header_chars} characters`)
  for (const line of text.split(/\r?\n/)) {
    if (line === '') continue
    const at = line.indexOf(':')
    const [name, value] = [line.slice(0, Math.max(at, 0)).toLowerCase(), line.slice(at + 1).trim()]
    if (!TOKEN.test(name) || !VALUE.test(value))
      return err('a header is not a line `name: value` of printable ASCII characters')
    if (RESERVED_HEADER.test(name)) return err(`the header \`${name}\` is set by the platform; leave it out`)
    headers.append(name, value)
  }
  return ok(headers)
}
