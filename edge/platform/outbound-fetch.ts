// Outbound requests (N14): which addresses may be requested, and the network for them. Callers
// check an address when it is stored and again before each request. The IP address that a name
// resolves to is checked by the network at connection: infra/workerd.ts allows no private
// addresses, and Cloudflare's network has none.

/** Names that only have a meaning inside a private network. */
const INTERNAL_NAME =
  /(?:^|\.)(?:localhost|local|localdomain|internal|intranet|private|corp|lan|home|home\.arpa|arpa|onion|invalid)$/

/** At least two labels, none of them empty: `localhost..` would pass a check for a dot. */
const DOTTED_NAME = /^(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{1,63}$/

/** Why no request can ever reach this host pattern of a manifest; undefined if one can. */
export const faultInPattern = (pattern: string): string | undefined =>
  faultInAddress(`https://${pattern.startsWith('.') ? `any${pattern}` : pattern}`, false)

/**
 * Why no request may be sent to this address; undefined if it may. `URL` has normalized every
 * notation of an IPv4 address to the dotted one.
 */
export function faultInAddress(text: string, loopback: boolean): string | undefined {
  if (!URL.canParse(text)) return 'the address is not a URL'
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') return 'the address contains credentials'
  if (url.hash !== '') return 'the address has a fragment'
  if (loopback && url.protocol === 'http:' && url.hostname === '127.0.0.1') return undefined
  if (url.protocol !== 'https:') return 'the address is not `https`'
  const host = url.hostname.replace(/\.$/, '')
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return 'the address is an IP address; give a name'
  if (!DOTTED_NAME.test(host) || INTERNAL_NAME.test(host))
    return 'the address is not a public host; write a name with a dot, such as `hooks.example.com`'
  return undefined
}

/** The network for outbound requests, which reaches no private addresses. */
export type Outside = { readonly fetch: (to: string, init: RequestInit) => Promise<Response> }

/** For tests: origins on this host that replace external ones. */
export type StandIns = Readonly<Record<string, string>>

export function testOverrideFor(to: string, standIns: StandIns): string {
  const { origin, pathname, search } = new URL(to)
  const standIn = standIns[origin]
  return standIn === undefined ? to : `${standIn}${pathname}${search}`
}

/** The first bytes of a response's body as text. The rest is not read. */
export async function beginningOf(answer: Response, limit: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.byteLength
    if (size >= limit) break // which cancels the rest
  }
  return Buffer.concat(chunks).subarray(0, limit).toString('utf8')
}
