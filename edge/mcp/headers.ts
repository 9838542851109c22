// Checks the headers of a request to the MCP endpoint: where it comes from, what it accepts, and
// whether they say the same as its body (M01). Pure.

import { Buffer } from 'node:buffer'
import { type Failure, failure } from '../../shared/failures.ts'
import type { JsonObject } from './envelope.ts'

const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/
/** A name can be made to resolve to any host (DNS rebinding, N16); an address can't. */
const ADDRESS = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/

/**
 * Refuses requests that a page of another origin sends, and requests for a host that is not the
 * edge. Programs send no `Origin`. A page on this host may call an edge whose address is loopback.
 */
export function checkOrigin(request: Request, publicUrl: string): Failure | undefined {
  const [ours, { host, hostname }] = [new URL(publicUrl), new URL(request.url)]
  if (host !== ours.host && !LOOPBACK.test(hostname) && !ADDRESS.test(hostname))
    return failure('foreign_origin', 'the `Host` header does not name this edge')
  const origin = request.headers.get('origin')
  if (origin === null || origin === ours.origin) return undefined
  return LOOPBACK.test(hostname) && URL.canParse(origin) && LOOPBACK.test(new URL(origin).hostname)
    ? undefined
    : failure('foreign_origin', 'the request comes from a page of another origin')
}

export type AcceptedTypes = { readonly json: boolean; readonly stream: boolean }

/** Older clients send no `Accept`, or one without event streams: they get JSON. */
export function acceptedOf(headers: Headers): AcceptedTypes {
  const types = (headers.get('accept') ?? '*/*')
    .toLowerCase()
    .split(',')
    .map((one) => one.split(';', 1)[0]?.trim() ?? '')
  return {
    json: types.some((type) => type === 'application/json' || type === 'application/*' || type === '*/*'),
    stream: types.includes('text/event-stream'),
  }
}

export const versionHeader = (headers: Headers): string | undefined =>
  headers.get('mcp-protocol-version') ?? undefined

/** The parameter that `Mcp-Name` repeats, by method. */
const NAMED_BY: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
}

type Body = { readonly version: string; readonly method: string; readonly params: JsonObject }

/** Says which header differs from the body; intermediaries route and log by the headers. */
export function checkModernHeaders(headers: Headers, { version, method, params }: Body): string | undefined {
  if (versionHeader(headers) !== version) return differs('MCP-Protocol-Version', 'the revision in `_meta`')
  if (headers.get('mcp-method') !== method) return differs('Mcp-Method', '`method`')
  const named = Object.hasOwn(NAMED_BY, method) ? NAMED_BY[method] : undefined
  if (named === undefined) return undefined
  const value = params[named]
  if (typeof value !== 'string') return undefined // the code of the method refuses it
  return decodeHeader(headers.get('mcp-name')) === value ? undefined : differs('Mcp-Name', `\`${named}\``)
}

const differs = (header: string, part: string): string =>
  `the header \`${header}\` must repeat ${part} of the body`

const BASE64 = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Clients send a value that is not plain ASCII as base64; undefined if it can't be decoded. */
export function decodeHeader(value: string | null): string | undefined {
  if (value === null) return undefined
  const text = BASE64.exec(value)?.[1]
  if (text === undefined) return value
  const bytes = Buffer.from(text, 'base64')
  if (bytes.toString('base64') !== text) return undefined
  try {
    return utf8.decode(bytes)
  } catch {
    return undefined
  }
}
