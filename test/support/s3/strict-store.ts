// A strict S3-compatible store with one bucket: it checks signature, digest and checksum of each
// request, has conditional writes, and fails in the ways that a test asks for.

import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ExportTargetSpec } from '../../../shared/wire/exports.ts'
import { type AccessKey, faultInSignature } from './signature.ts'

/**
 * A failure of the next request. `lost`: the store does it, and ends the connection without an answer.
 * `silent`: nothing comes, and the connection stays. `torn`: the connection ends in the middle of the
 * answer. `silent_checksum`: the store does it, and the answer has no checksum. `altered`: the store stores
 * other bytes, and the answer has no checksum.
 */
export type Fault =
  | 'slow_down'
  | 'conflict'
  | 'internal'
  | 'redirect'
  | 'unreachable'
  | 'lost'
  | 'silent'
  | 'torn'
  | 'silent_checksum'
  | 'altered'

const KEY: AccessKey = { id: 'STRICTSTOREKEY', secret: 'wJalrXUtnFEMI/K7MDENG+secret', region: 'eu-test-1' }
const BUCKET = 'evidence'

export class StrictStore {
  readonly objects = new Map<string, Buffer>()
  /** Method, path and status of each request, in order; status 0 if there was no answer. */
  readonly requests: string[] = []
  /** Faults of the next requests, in order. */
  readonly faults: Fault[] = []
  /** Whether every request fails, after `faults`. */
  failing = false
  /** Called when an object is stored; the answer waits for it. */
  onStored: (() => Promise<void>) | undefined
  /** Requests wait for it, and get no answer before. */
  stalling: Promise<void> | undefined
  /** The store's clock. */
  clock: () => Date = () => new Date()
  readonly #server = createServer((request, response) => {
    this.#serve(request, response).catch(() => response.destroy()) // the client went away
  })

  static async start(): Promise<StrictStore> {
    const store = new StrictStore()
    await new Promise<void>((resolve) => store.#server.listen(0, '127.0.0.1', resolve))
    return store
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on a port
  }

  /** A target that works, with changes. */
  target(change: Partial<ExportTargetSpec> = {}): ExportTargetSpec {
    return {
      endpoint: this.url,
      region: KEY.region,
      bucket: BUCKET,
      prefix: '',
      access_key_id: KEY.id,
      secret_access_key: KEY.secret,
      ...change,
    }
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    await this.stalling
    const fault = this.faults.shift() ?? (this.failing ? 'slow_down' : undefined)
    if (fault === 'silent') return
    const before = this.objects.size
    const answer = this.#faulty(fault) ?? this.#answer(request, body, fault)
    if (this.objects.size > before) await this.onStored?.()
    const isAnswered = fault !== 'lost' && fault !== 'unreachable'
    this.requests.push(`${request.method} ${request.url} ${isAnswered ? answer.status : 0}`)
    if (!isAnswered) return void request.socket.destroy()
    const headers = fault === 'torn' ? { 'content-length': String(answer.body.byteLength + 9) } : {}
    response.writeHead(answer.status, { ...answer.headers, ...headers })
    if (fault !== 'torn') return void response.end(answer.body)
    response.write(answer.body, () => request.socket.end()) // half-closed: no more bytes will come
  }

  #faulty(fault: Fault | undefined): Answer | undefined {
    if (fault === 'slow_down') return refusal(503, 'SlowDown')
    if (fault === 'internal') return refusal(500, 'InternalError')
    if (fault === 'conflict') return refusal(409, 'ConditionalRequestConflict')
    if (fault === 'unreachable') return refusal(500, 'InternalError')
    if (fault === 'redirect')
      return { ...refusal(307, 'TemporaryRedirect'), headers: { location: `${this.url}/elsewhere` } }
    return undefined
  }

  #answer(
    { method = '', url = '', headers }: IncomingMessage,
    body: Buffer,
    fault: Fault | undefined,
  ): Answer {
    const wrong = faultInSignature({ method, target: url, headers }, KEY, this.clock())
    if (wrong !== undefined) return refusal(wrong === 'AuthorizationHeaderMalformed' ? 400 : 403, wrong)
    if (headers['x-amz-content-sha256'] !== createHash('sha256').update(body).digest('hex'))
      return refusal(400, 'XAmzContentSHA256Mismatch')
    const name = decodeURIComponent(url).slice(`/${BUCKET}/`.length)
    if (!url.startsWith(`/${BUCKET}/`)) return refusal(404, 'NoSuchBucket')
    const before = this.objects.get(name)
    if (method === 'GET')
      return before === undefined ? refusal(404, 'NoSuchKey') : { status: 200, headers: {}, body: before }
    if (method !== 'PUT') return refusal(405, 'MethodNotAllowed')
    const checksum = createHash('sha256').update(body).digest('base64')
    if (headers['x-amz-checksum-sha256'] !== checksum) return refusal(400, 'BadDigest')
    if (headers['if-none-match'] !== '*') return refusal(400, 'UnconditionalWrite')
    if (before !== undefined) return refusal(412, 'PreconditionFailed')
    this.objects.set(name, fault === 'altered' ? Buffer.from('other bytes') : body)
    const isSilent = fault === 'silent_checksum' || fault === 'altered'
    return {
      status: 200,
      headers: isSilent ? {} : { 'x-amz-checksum-sha256': checksum },
      body: Buffer.alloc(0),
    }
  }
}

type Answer = { readonly status: number; readonly headers: Record<string, string>; readonly body: Buffer }

const refusal = (status: number, code: string): Answer => ({
  status,
  headers: { 'content-type': 'application/xml' },
  body: Buffer.from(
    `<?xml version="1.0"?><Error><Code>${code}</Code><AWSAccessKeyId>${KEY.id}</AWSAccessKeyId></Error>`,
  ),
})
