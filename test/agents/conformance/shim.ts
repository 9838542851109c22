// Stands between the conformance suite, which can send no credentials, and the edge: adds the
// agent's key and passes everything else on unchanged, `Host` and `Origin` included.

import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { LoopbackServer } from './loopback-server.ts'

export type ShimOptions = {
  readonly edge: string
  readonly key: string
  /**
   * The prefix that the suite's tools have at the edge: an upstream's tools begin with its name, and
   * the suite can't be given other names.
   */
  readonly prefix?: string
  /** Tools that the suite expects as tasks: the shim asks the edge not to hold their calls. */
  readonly asTasks: ReadonlySet<string>
}

type Message = {
  method?: string
  params?: { name?: string; _meta?: Record<string, { extensions?: object }> }
}

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'

/** The suite's check of DNS rebinding requires a loopback address. */
export const openShim = (options: ShimOptions): Promise<LoopbackServer> =>
  LoopbackServer.open((incoming, response) => void pass(options, incoming, response))

async function pass(
  { edge, key, prefix = '', asTasks }: ShimOptions,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const sent = await text(incoming)
  const message = messageIn(sent)
  const { host: _host, 'content-length': _length, connection: _connection, ...headers } = incoming.headers
  const name = headers['mcp-name']
  const body = prefix === '' ? sent : renamed(sent, message, prefix)
  const outgoing = request(new URL('/mcp', edge), {
    method: incoming.method,
    headers: {
      ...headers,
      host: incoming.headers.host,
      authorization: `Bearer ${key}`,
      ...(message.method === 'tools/call' && typeof name === 'string'
        ? { 'mcp-name': nameAtEdge(name, prefix) }
        : {}),
      ...(isTask(message, asTasks) ? { prefer: 'wait=0' } : {}),
      'content-length': Buffer.byteLength(body),
    },
  })
  response.on('close', () => outgoing.destroy())
  outgoing.on('error', () => response.destroy())
  outgoing.on('response', async (answer) => {
    const { 'content-length': _own, connection: _kept, ...rest } = answer.headers
    response.writeHead(answer.statusCode ?? 502, rest)
    if (prefix === '' || message.method !== 'tools/list') return answer.pipe(response)
    return response.end((await text(answer)).replaceAll(`{"name":"${prefix}`, '{"name":"'))
  })
  outgoing.end(body)
}

function isTask({ method, params }: Message, asTasks: ReadonlySet<string>): boolean {
  const holdsTasks = params?._meta?.[CAPABILITIES]?.extensions !== undefined
  return method === 'tools/call' && holdsTasks && asTasks.has(params?.name ?? '')
}

const messageIn = (body: string): Message => {
  try {
    return JSON.parse(body) as Message // sent by the suite
  } catch {
    return {} // some scenarios send other things
  }
}

const renamed = (body: string, { method, params }: Message, prefix: string): string =>
  method === 'tools/call' && typeof params?.name === 'string'
    ? body.replace(
        `"name":${JSON.stringify(params.name)}`,
        `"name":${JSON.stringify(nameAtEdge(params.name, prefix))}`,
      )
    : body

const nameAtEdge = (name: string, prefix: string): string =>
  name === 'countersign_result' ? name : prefix + name
