// A webhook receiver over real HTTP, which answers as configured and keeps what it received. It
// verifies HMAC signatures with the published Standard Webhooks package, and Ed25519 ones, which
// that lacks, with its own code.

import { createPublicKey, verify } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook, WebhookVerificationError } from 'standardwebhooks'
import type { Notice } from '../../../edge/channels/medium.ts'
import type { Approval } from '../../../shared/wire/approvals.ts'

export type Came = {
  readonly at: number
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly type: string
  readonly data: { readonly approval: Approval; readonly recipient: string | null; readonly notice?: Notice }
}
type Reply = (response: ServerResponse, count: number) => void

export const taking: Reply = (response) => response.writeHead(204).end()

export class WebhookReceiver {
  readonly came: Came[] = []
  reply: Reply = taking
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (chunk: string) => {
        body += chunk
      })
      request.on('end', () => {
        const { type, data } = body.startsWith('{')
          ? (JSON.parse(body) as Pick<Came, 'type' | 'data'>)
          : { type: '', data: { approval: {} as Approval, recipient: null } } // anything; the tests check it
        const whole = { ...data, approval: data.approval ?? ({} as Approval) } // a notice has no approval
        this.came.push({
          at: Date.now(),
          path: `${request.method} ${request.url}`,
          headers: request.headers,
          body,
          type,
          data: whole,
        })
        this.reply(response, this.came.length)
      })
    })
  }

  static async open(): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver()
    await new Promise<void>((resolve) => receiver.#server.listen(0, '127.0.0.1', resolve))
    return receiver
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // the address of a TCP server
  }

  about(approval: string): Came[] {
    return this.came.filter(({ data }) => data.approval.id === approval)
  }

  /** The notices of this call. */
  noticesOf(call: string): Came[] {
    return this.came.filter(({ data }) => data.notice?.call === call)
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

/** Whether one of the signatures is by this key: `whsec_…`, or the public `whpk_…`. */
export function signedBy(key: string, { headers, body }: Pick<Came, 'headers' | 'body'>): boolean {
  if (key.startsWith('whsec_')) return publishedVerifies(key, headers, body)
  const content = Buffer.from(
    `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`,
  )
  const bytes = Buffer.from(key.slice(key.indexOf('_') + 1), 'base64')
  const signatures = String(headers['webhook-signature']).split(' ')
  const x = createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') },
    format: 'jwk',
  })
  return signatures.some(
    (one) => one.startsWith('v1a,') && verify(null, content, x, Buffer.from(one.slice(4), 'base64')),
  )
}

function publishedVerifies(key: string, headers: IncomingHttpHeaders, body: string): boolean {
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)] as const)
  try {
    new Webhook(key).verify(body, Object.fromEntries(texts))
    return true
  } catch (thrown) {
    if (thrown instanceof WebhookVerificationError) return false
    throw thrown
  }
}
