// Fakes of both mail providers over real HTTP: they validate requests as the providers do,
// recognise idempotency keys, and keep the mails that they would have sent.

import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type MailRequest = {
  readonly to: string
  readonly from: string
  readonly subject: string
  readonly text: string
  readonly html: string
}
export type SentMail = MailRequest & {
  readonly provider: Provider
  readonly headers: IncomingHttpHeaders
  readonly body: Record<string, unknown>
}
type Provider = 'resend' | 'postmark'
type FakeResponse = { status: number; body: Record<string, unknown>; headers?: Record<string, string> }

const ORIGINS = { resend: 'https://api.resend.com', postmark: 'https://api.postmarkapp.com' } as const

export class FakeMail {
  readonly mails: SentMail[] = []
  /** All requests, accepted or refused. */
  readonly tried: string[] = []
  /** A failure to answer with instead. */
  trouble: ((response: ServerResponse, body: Record<string, unknown>) => void) | undefined
  /** Accepts the mail but never answers. */
  silent = false
  readonly #seen = new Map<string, { content: string; said: FakeResponse }>()
  readonly #servers: Server[]
  readonly #tokens: Readonly<Record<Provider, string>>

  private constructor(tokens: Readonly<Record<Provider, string>>) {
    this.#tokens = tokens
    this.#servers = (['resend', 'postmark'] as const).map((provider) =>
      createServer((request, response) => {
        let text = ''
        request.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        request.on('end', () => {
          const body = JSON.parse(text) as Record<string, unknown> // anything; missing fields show up as missing
          this.tried.push(`${provider} ${request.method} ${request.url} ${text}`)
          if (this.trouble !== undefined) return this.trouble(response, body)
          const {
            status,
            body: said,
            headers,
          } = this.#answer(provider, `${request.method} ${request.url}`, request.headers, text, body)
          if (this.silent) return
          response
            .writeHead(status, { 'content-type': 'application/json', ...headers })
            .end(JSON.stringify(said))
        })
      }),
    )
  }

  static async open(tokens: Readonly<Record<Provider, string>>): Promise<FakeMail> {
    const mail = new FakeMail(tokens)
    for (const server of mail.#servers)
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return mail
  }

  /** The origin of each provider and of its fake. */
  get standIns(): Record<string, string> {
    const [resend, postmark] = this.#servers.map(
      (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ) // the address of a TCP server
    return { [ORIGINS.resend]: resend ?? '', [ORIGINS.postmark]: postmark ?? '' }
  }

  /** The mails about this call or approval. */
  about(id: string): SentMail[] {
    return this.mails.filter(({ text }) => text.includes(id))
  }

  async close(): Promise<void> {
    for (const server of this.#servers) {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    }
  }

  #answer(
    provider: Provider,
    line: string,
    headers: IncomingHttpHeaders,
    text: string,
    body: Record<string, unknown>,
  ): FakeResponse {
    return provider === 'resend'
      ? this.#resend(line, headers, text, body)
      : this.#postmark(line, headers, body)
  }

  #resend(
    line: string,
    headers: IncomingHttpHeaders,
    text: string,
    body: Record<string, unknown>,
  ): FakeResponse {
    const refused = (statusCode: number, name: string): FakeResponse => ({
      status: statusCode,
      body: { statusCode, name, message: 'in words' },
    })
    if (line !== 'POST /emails') return refused(404, 'not_found')
    if (headers.authorization === undefined) return refused(401, 'missing_api_key')
    if (headers.authorization !== `Bearer ${this.#tokens.resend}`) return refused(403, 'invalid_api_key')
    const key = String(headers['idempotency-key'] ?? '')
    if (key.length < 1 || key.length > 256) return refused(400, 'invalid_idempotency_key')
    const known = this.#seen.get(key)
    if (known !== undefined)
      return known.content === text ? known.said : refused(409, 'invalid_idempotent_request')
    const { from, to, subject, text: plain, html } = body
    if (!allTexts(from, subject, plain, html) || !Array.isArray(to) || to.length !== 1)
      return refused(422, 'missing_required_field')
    this.#take('resend', { to: String(to[0]), from, subject, text: plain, html }, headers, body)
    const said = { status: 200, body: { id: crypto.randomUUID() } }
    this.#seen.set(key, { content: text, said })
    return said
  }

  #postmark(line: string, headers: IncomingHttpHeaders, body: Record<string, unknown>): FakeResponse {
    const refused = (status: number, ErrorCode: number): FakeResponse => ({
      status,
      body: { ErrorCode, Message: 'in words' },
    })
    if (line !== 'POST /email') return { status: 404, body: {} }
    if (headers['x-postmark-server-token'] !== this.#tokens.postmark) return refused(401, 10)
    const { From, To, Subject, TextBody, HtmlBody } = body
    if (!allTexts(From, To, Subject, TextBody, HtmlBody)) return refused(422, 300)
    if (String(To).startsWith('bounced@')) return refused(422, 406)
    this.#take(
      'postmark',
      { to: To, from: From, subject: Subject, text: TextBody, html: HtmlBody },
      headers,
      body,
    )
    return {
      status: 200,
      body: {
        To,
        SubmittedAt: '2026-11-18T12:00:00.0000000Z',
        MessageID: crypto.randomUUID(),
        ErrorCode: 0,
        Message: 'OK',
      },
    }
  }

  #take(
    provider: Provider,
    posted: Record<keyof MailRequest, unknown>,
    headers: IncomingHttpHeaders,
    body: Record<string, unknown>,
  ): void {
    this.mails.push({ ...(posted as MailRequest), provider, headers, body }) // validated above
  }
}

const allTexts = (...values: unknown[]): boolean =>
  values.every((value) => typeof value === 'string' && value !== '')
