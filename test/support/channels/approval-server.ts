// A small approval product that is not ours, to test the conformance suite: sound by default, with
// a switch for each flaw.

import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { Seen, Target } from '../../conformance/approval-links/check.ts'

/** Flaws that real products have or had. */
export type Flaw =
  | 'decides on GET'
  | 'decides on HEAD'
  | 'decides on GET with a decision in the query'
  | 'decides on PUT'
  | 'decides when a browser fetches ahead'
  | 'decides for Slack’s expander'
  | 'decides on a link of its page'
  | 'asks for no nonce'
  | 'takes the nonce of another approval'
  | 'believes every origin'
  | 'reads plain text'
  | 'accepts replays'
  | 'counts answers that come at once'
  | 'never expires'
  | 'compares half of the token'
  | 'ignores the case of the token'
  | 'ignores what follows the token'
  | 'can be framed'
  | 'shows the form after the end'

type ApprovalRow = {
  readonly id: string
  readonly expiresAt: number
  status: Seen['status']
  answers: number
}

const STRICT = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex',
}

/** Two characters of an id for each byte. */
const ID_BYTES = 3
/** The id, a dot and half of the MAC. */
const HALF = 2 * ID_BYTES + 1 + 4

export class ApprovalServer {
  readonly #key = randomBytes(32)
  readonly #records = new Map<string, ApprovalRow>()
  readonly #flaw: Flaw | undefined
  readonly #server: Server

  constructor(flaw?: Flaw) {
    this.#flaw = flaw
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  async start(): Promise<this> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done))
    return this
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  get #origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // the address of a TCP server
  }

  readonly target: Target = {
    open: async (seconds = 600) => {
      const record: ApprovalRow = {
        id: randomBytes(ID_BYTES).toString('hex'),
        expiresAt: Date.now() + seconds * 1000,
        status: 'pending',
        answers: 0,
      }
      this.#records.set(record.id, record)
      return { link: `${this.#origin}/a/${this.#tokenOf(record.id)}`, look: async () => this.#look(record) }
    },
  }

  #look(record: ApprovalRow): Seen {
    return {
      status: this.#isOver(record) && record.status === 'pending' ? 'expired' : record.status,
      answers: record.answers,
    }
  }

  #isOver = ({ status, expiresAt }: ApprovalRow): boolean =>
    status !== 'pending' || (!this.#has('never expires') && Date.now() >= expiresAt)

  #has = (flaw: Flaw): boolean => this.#flaw === flaw
  /**
   * 32 bits: the suite tries several changes of each character, so a longer token costs more time.
   */
  #mac = (use: string, id: string): string =>
    createHmac('sha256', this.#key).update(`${use} ${id}`).digest('hex').slice(0, 8)
  #tokenOf = (id: string): string => `${id}.${this.#mac('link', id)}`
  #nonceOf = (id: string): string =>
    this.#mac('form', this.#has('takes the nonce of another approval') ? '' : id)

  #find(token: string): ApprovalRow | undefined {
    const record = this.#records.get(token.slice(0, 2 * ID_BYTES).toLowerCase())
    if (record === undefined) return undefined
    const [given, expected] = [token, this.#tokenOf(record.id)]
    if (this.#has('compares half of the token'))
      return given.slice(0, HALF) === expected.slice(0, HALF) ? record : undefined
    if (this.#has('ignores the case of the token'))
      return given.toLowerCase() === expected ? record : undefined
    if (this.#has('ignores what follows the token')) return given.startsWith(expected) ? record : undefined
    const [left, right] = [Buffer.from(given), Buffer.from(expected)]
    return left.byteLength === right.byteLength && timingSafeEqual(left, right) ? record : undefined
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '', this.#origin)
    const [, , token = '', verb] = pathname.split('/')
    const body = await text(request)
    const record = this.#find(token)
    const say = (status: number, page: string): void => {
      if (!this.#has('can be framed'))
        for (const [name, value] of Object.entries(STRICT)) response.setHeader(name, value)
      response.writeHead(status, { 'content-type': 'text/html' }).end(page)
    }
    if (record === undefined) return say(401, 'no such link')
    if (request.method === 'POST') return say(await this.#post(record, request, body), 'noted')
    if (this.#decidesUnasked(request, searchParams, verb)) this.#decide(record, 'approved')
    const open = this.#has('shows the form after the end') || !this.#isOver(record)
    say(200, open ? this.#page(record, token) : record.status)
  }

  #decidesUnasked(
    { method, headers }: IncomingMessage,
    query: URLSearchParams,
    verb: string | undefined,
  ): boolean {
    const purpose = `${headers['sec-purpose']} ${headers.purpose}`
    return (
      (this.#has('decides on GET') && method === 'GET') ||
      (this.#has('decides on HEAD') && method === 'HEAD') ||
      (this.#has('decides on PUT') && method === 'PUT') ||
      (this.#has('decides on GET with a decision in the query') && query.get('decision') === 'approve') ||
      (this.#has('decides when a browser fetches ahead') && purpose.includes('prefetch')) ||
      (this.#has('decides for Slack’s expander') && (headers['user-agent'] ?? '').startsWith('Slackbot')) ||
      (this.#has('decides on a link of its page') && verb === 'yes')
    )
  }

  #page({ id }: ApprovalRow, token: string): string {
    const link = this.#has('decides on a link of its page') ? `<a href="/a/${token}/yes">Approve</a>` : ''
    return `<form method="post"><input type="hidden" name="nonce" value="${this.#nonceOf(id)}">${link}
      <button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></form>`
  }

  async #post(record: ApprovalRow, { headers }: IncomingMessage, body: string): Promise<number> {
    const plain = this.#has('reads plain text') && headers['content-type'] === 'text/plain'
    if (!plain && headers['content-type'] !== 'application/x-www-form-urlencoded') return 415
    if (!plain && !this.#has('believes every origin') && headers.origin !== this.#origin) return 403
    if (!plain && headers['sec-fetch-site'] !== 'same-origin' && !this.#has('believes every origin'))
      return 403
    const form = new URLSearchParams(body)
    if (!this.#has('asks for no nonce') && form.get('nonce') !== this.#nonceOf(record.id)) return 403
    if (this.#isOver(record) && !(this.#has('accepts replays') && record.status !== 'expired')) return 409
    // Others can read between this check and the write.
    if (this.#has('counts answers that come at once')) await new Promise((done) => setTimeout(done, 20))
    this.#decide(record, form.get('decision') === 'approve' ? 'approved' : 'denied')
    return 200
  }

  #decide(record: ApprovalRow, status: Seen['status']): void {
    record.status = status
    record.answers += 1
  }
}
