// The way out for channels (N14): which addresses may be written to, and the one `fetch` that does. Asked when a channel is put and at
// every attempt. What a name resolves to is the network's to judge, at connection: infra/workerd.ts gives it no private address,
// Cloudflare has none.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import type { Answered, Post } from './port.ts'

/** Names that mean something inside of a network alone. */
const INSIDE = /(?:^|\.)(?:localhost|local|localdomain|internal|intranet|private|corp|lan|home|home\.arpa|arpa|onion|invalid)$/

/** At least two labels, none of them empty: `localhost..` passes a check that looks only for a dot. */
const NAMED = /^(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]{1,63}$/

/** The reason why no request can ever reach a host pattern of a manifest; undefined where one can. */
export const faultInPattern = (pattern: string): string | undefined =>
  faultInAddress(`https://${pattern.startsWith('.') ? `any${pattern}` : pattern}`, false)

/** Why nothing may be sent there, or nothing. The parser has turned every notation of an IPv4 address into one. */
export function faultInAddress(text: string, loopback: boolean): string | undefined {
  if (!URL.canParse(text)) return 'the address is not a URL'
  const url = new URL(text)
  if (url.username !== '' || url.password !== '') return 'the address holds credentials'
  if (url.hash !== '') return 'the address has a fragment'
  if (loopback && url.protocol === 'http:' && url.hostname === '127.0.0.1') return undefined
  if (url.protocol !== 'https:') return 'the address is not `https`'
  const host = url.hostname.replace(/\.$/, '')
  if (host.startsWith('[') || /^[\d.]+$/.test(host)) return 'the address is an IP address; give a name'
  if (!NAMED.test(host) || INSIDE.test(host))
    return 'the address names no public host; write a name with a dot, such as `hooks.example.com`'
  return undefined
}

/** A network without private addresses, or the platform's own. */
export type Outside = { readonly fetch: (to: string, init: RequestInit) => Promise<Response> }

/** For tests: what goes to an origin goes to the one that stands in for it, on this host. */
export type StandIns = Readonly<Record<string, string>>

export function stoodInFor(to: string, standIns: StandIns): string {
  const { origin, pathname, search } = new URL(to)
  const standIn = standIns[origin]
  return standIn === undefined ? to : `${standIn}${pathname}${search}`
}

/** Nothing of the answer but its status, unless the adapter has to read it. */
export function postThrough({ outside, standIns }: { outside: Outside; standIns: StandIns | undefined }): Post {
  return async ({ to, headers, body }, read) => {
    const fault = faultInAddress(to, standIns !== undefined)
    if (fault !== undefined) return err({ again: false, why: fault })
    const signal = AbortSignal.timeout(LIMITS.delivery_ms)
    try {
      const answer = await outside.fetch(stoodInFor(to, standIns ?? {}), { method: 'POST', redirect: 'manual', headers, body, signal })
      const text = read === 'read' ? await beginning(answer) : await answer.body?.cancel().then(() => '')
      return ok({ status: answer.status, pause_ms: pauseIn(answer.headers.get('retry-after')), text: text ?? '' } satisfies Answered)
    } catch {
      // What the runtime says of a connection tells what lies behind a name; the caller learns that there was none.
      return err({ again: true, why: signal.aborted ? `no answer within ${LIMITS.delivery_ms} ms` : 'it could not be reached' })
    }
  }
}

async function beginning(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.byteLength
    if (size >= LIMITS.delivery_answer_bytes) break // which cancels the rest
  }
  return Buffer.concat(chunks).subarray(0, LIMITS.delivery_answer_bytes).toString('utf8')
}

/** In seconds; the form with a date is as good as none. */
function pauseIn(header: string | null): number | undefined {
  return header !== null && /^[0-9]{1,6}$/.test(header) ? Math.min(Number(header) * 1_000, LIMITS.delivery_pause_max_ms) : undefined
}
