// Access tokens of upstreams that want OAuth client credentials. Kept in the isolate's memory until
// shortly before they expire; nothing stores them. A token is requested for the upstream's address
// (RFC 8707), so that another server can't use it.

import { z } from 'zod'
import { parseJson, sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { UpstreamAuth } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { UpstreamRequests } from './requests.ts'

type ClientCredentials = Extract<UpstreamAuth, { kind: 'client_credentials' }>
type Held = { readonly token: string; readonly until: number }

const Answer = z.object({
  access_token: z
    .string()
    .min(8)
    .max(LIMITS.upstream_token_bytes)
    .regex(/^[\x21-\x7e]+$/),
  token_type: z.string().regex(/^bearer$/i),
  expires_in: z.number().positive().optional(),
})
const [DEFAULT_LIFE_S, SPARE_MS, MOST_TOKENS] = [300, 30_000, 1_000]

const held = new Map<string, Held>()

/** `refused`: the token that the server did not accept, which is then not used again. */
export async function accessToken(
  requests: UpstreamRequests,
  auth: ClientCredentials,
  {
    url,
    secret,
    refused,
  }: { readonly url: string; readonly secret: string; readonly refused: string | null },
): Promise<Result<string, string>> {
  const key = sha256(JSON.stringify([url, auth, secret]))
  const known = held.get(key)
  if (known !== undefined && known.until > Date.now() && known.token !== refused) return ok(known.token)
  held.delete(key)
  const asked = await ask(requests, auth, url, secret)
  if (!asked.ok) return asked
  if (held.size >= MOST_TOKENS) held.clear()
  held.set(key, asked.value)
  return ok(asked.value.token)
}

async function ask(
  requests: UpstreamRequests,
  { token_url, client_id, scope, secret: name }: ClientCredentials,
  resource: string,
  secret: string,
): Promise<Result<Held, string>> {
  const form = new URLSearchParams({ grant_type: 'client_credentials', resource, ...(scope && { scope }) })
  const basic = Buffer.from(`${encodeURIComponent(client_id)}:${encodeURIComponent(secret)}`).toString(
    'base64',
  )
  const answer = await requests.send({
    method: 'POST',
    url: token_url,
    headers: {
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
      authorization: `Basic ${basic}`,
    },
    body: form.toString(),
    credentials: [name],
  })
  if (!answer.ok) return err(`the token endpoint gave no answer: ${answer.error.why}`)
  const { status, body } = answer.value
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body) {
      size += chunk.byteLength
      if (size > LIMITS.upstream_token_bytes) return err('the token endpoint’s answer is too large')
      chunks.push(chunk)
    }
  } catch {
    return err('the token endpoint’s answer ended early')
  }
  if (status !== 200) return err(`the token endpoint answered HTTP ${status}`)
  const parsed = parseJson(Buffer.concat(chunks))
  const read = Answer.safeParse(parsed.ok ? parsed.value : undefined)
  if (!read.success) return err('the token endpoint’s answer is not a bearer token')
  const { access_token: token, expires_in = DEFAULT_LIFE_S } = read.data
  return ok({ token, until: Date.now() + expires_in * 1_000 - SPARE_MS })
}
