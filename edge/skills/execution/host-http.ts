// What a skill asks of the network, judged before it is sent: its address, its method and its headers against the plan, and what the edge
// adds. Pure. N09: what a name resolves to is the network's to judge, at connection (infra/workerd.ts, edge/platform/outbound-fetch.ts).

import { z } from 'zod'
import { LIMITS } from '../../../shared/limits.ts'
import type { Credential, SkillPlan } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { faultInAddress } from '../../platform/outbound-fetch.ts'
import { covers } from '../../tools/planner.ts'

/** As an isolate sends it. */
export const Asked = z.strictObject({
  method: z.string(),
  url: z.string(),
  headers: z.string(),
  body: z.instanceof(Uint8Array),
})
export type Asked = z.infer<typeof Asked>
export type Request = {
  readonly host: string
  readonly port: number
  readonly url: string
  readonly method: string
  readonly headers: Headers
  readonly body: Uint8Array | null
  /** Names of the secrets that were added. */
  readonly credentials: readonly string[]
}
/** denied: it was not granted, and ends the call. failed: it is no request, and the skill is told. */
export type Unsent = {
  readonly kind: 'denied' | 'failed'
  readonly why: string
  readonly host: string
  readonly port: number
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const VALUE = /^[\x20-\x7e\t]*$/
/** About the connection, or who asks: the platform's to say. */
const NOT_ITS_OWN =
  /^(?:host|connection|content-length|transfer-encoding|te|trailer|upgrade|keep-alive|expect|via|forwarded|proxy-.*|cf-.*|x-forwarded-.*|sec-.*)$/

export function judged(
  asked: Asked,
  plan: SkillPlan,
  secrets: Readonly<Record<string, string>>,
  loopback: boolean,
): Result<Request, Unsent> {
  const { url: text, method } = asked
  const unsent = (kind: Unsent['kind'], why: string, host = '', port = 0) => err({ kind, why, host, port })
  // N05: as one writes it; parsers differ in what they make of anything else.
  if (text.length > LIMITS.skill_url_chars || !/^https?:\/\/[^\s\\/?#][^\s\\\p{Cc}]*$/iu.test(text))
    return unsent(
      'failed',
      `\`url\` is none: write \`https://host/path\`, ${LIMITS.skill_url_chars} characters at the most`,
    )
  const fault = faultInAddress(text, loopback)
  if (fault !== undefined) return unsent('denied', fault)
  const url = new URL(text)
  const host = url.hostname.replace(/\.$/, '')
  const port = url.port !== '' ? Number(url.port) : url.protocol === 'https:' ? 443 : 80
  if (!plan.egress.hosts.some((pattern) => covers(pattern, `${host}:${port}`)))
    return unsent('denied', `\`${host}:${port}\` is not among the hosts that its manifest names`, host, port)
  if (!(plan.executor.methods ?? []).some((granted) => granted === method))
    return unsent(
      'denied',
      `\`${method.slice(0, 16)}\` is not among the methods that its manifest names`,
      host,
      port,
    )
  const headers = headersOf(asked.headers)
  if (!headers.ok) return unsent('failed', headers.error, host, port)
  const added = (plan.credentials ?? []).filter((one) => one.host === `${host}:${port}`)
  const twice = added.find(({ header }) => headers.value.has(header))
  if (twice !== undefined)
    return unsent('failed', `the header \`${twice.header}\` is added by the edge; leave it out`, host, port)
  for (const credential of added) headers.value.set(credential.header, credentialOf(credential, secrets))
  const bare = method === 'GET' || method === 'HEAD'
  if (bare && asked.body.byteLength > 0) return unsent('failed', `a ${method} has no body`, host, port)
  return ok({
    host,
    port,
    url: url.href,
    method,
    headers: headers.value,
    body: bare ? null : asked.body,
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
    return err(`its headers are longer than ${LIMITS.skill_header_chars} characters`)
  for (const line of text.split(/\r?\n/)) {
    if (line === '') continue
    const at = line.indexOf(':')
    const [name, value] = [line.slice(0, Math.max(at, 0)).toLowerCase(), line.slice(at + 1).trim()]
    if (!TOKEN.test(name) || !VALUE.test(value))
      return err('a header is no line `name: value` of plain characters')
    if (NOT_ITS_OWN.test(name)) return err(`the header \`${name}\` is not the skill’s to set`)
    headers.append(name, value)
  }
  return ok(headers)
}
