// The HTTP side of a witness: bounded bodies, bounded time, and no response before the witness has
// decided. It stands behind a proxy that speaks TLS.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { LIMITS } from '../../shared/limits.ts'
import { reason } from '../shell/files.ts'
import type { Answer, Witness } from './witness.ts'

const TEXT = 'text/plain; charset=utf-8'

/** `note` reports a failure of this machine to its operator. */
export function witnessServer(witness: Witness, note: (text: string) => void): Server {
  const times = {
    requestTimeout: LIMITS.witness_request_ms,
    headersTimeout: LIMITS.witness_request_ms,
    connectionsCheckingInterval: 1_000,
  }
  const server = createServer(times, (request, response) => {
    void answerTo(request, witness).then(
      (answer) => send(response, answer),
      (thrown: unknown) => {
        note(`a request failed: ${reason(thrown)}`)
        send(response, {
          status: 500,
          body: 'the witness can’t read or write its state; nothing was signed\n',
        })
      },
    )
  })
  server.maxConnections = LIMITS.witness_connections
  return server
}

async function answerTo(request: IncomingMessage, witness: Witness): Promise<Answer> {
  const { pathname } = new URL(request.url ?? '/', 'http://witness')
  if (pathname === '/' && request.method === 'GET') return { status: 200, body: witness.page() }
  if (pathname !== '/add-checkpoint') return { status: 404, body: 'not found\n' }
  if (request.method !== 'POST') return { status: 405, body: 'send a checkpoint with POST\n' }
  const body = await bodyOf(request)
  return typeof body === 'string' ? witness.answer(body, Date.now()) : body
}

async function bodyOf(request: IncomingMessage): Promise<string | Answer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > LIMITS.witness_body_bytes)
      return { status: 413, body: `the body has more than ${LIMITS.witness_body_bytes} bytes\n` }
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch {
    return { status: 400, body: 'the body is not UTF-8\n' }
  }
}

function send(response: ServerResponse, { status, body, type = TEXT }: Answer): void {
  const close = status === 413 ? { connection: 'close' } : {}
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store', ...close }).end(body)
}
