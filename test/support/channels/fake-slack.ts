// A fake of Slack over real HTTP: its API, its response URLs, and people who press buttons and
// submit forms. It checks requests against Slack's documented rules and signs its own with an
// independent implementation.

import { createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

export const [TOKEN, SECRET] = ['xoxb-0CANARYs1ack0-0123456789', '8f742231b10e8888abcd99e2CANARYs1'] as const
export const [APP, TEAM, CHANNEL] = ['A0APP', 'T0TEAM', 'C0ROOM'] as const
const ORIGINS = ['https://slack.com', 'https://hooks.slack.com'] as const

type Json = Record<string, unknown>
export type Block = { type: string; elements?: Block[]; [field: string]: unknown }
export type SlackMessage = { channel: string; ts: string; text: string; blocks: Block[]; edits: number }
type Reply = (response: ServerResponse, method: string, count: number) => boolean

/** The violations of Slack's rules for blocks. */
export function faultIn(blocks: unknown, most: number): string | undefined {
  if (!Array.isArray(blocks) || blocks.length === 0 || blocks.length > most) return `not 1 to ${most} blocks`
  const faults: string[] = []
  const walk = (node: unknown, key: string): void => {
    if (Array.isArray(node)) for (const item of node) walk(item, key)
    else if (typeof node === 'object' && node !== null)
      for (const [name, item] of Object.entries(node)) walk(item, name)
    else if (typeof node === 'string') {
      const longest = {
        action_id: 255,
        block_id: 255,
        private_metadata: 3_000,
        url: 3_000,
        value: 2_000,
        text: 3_000,
      }[key]
      if (longest !== undefined && (node.length === 0 || node.length > longest))
        faults.push(`${key} of ${node.length}`)
      if (!node.isWellFormed()) faults.push(`${key} is not well formed`)
    }
  }
  walk(blocks, '')
  for (const block of blocks as Block[]) {
    const { type, text: said, elements } = block as Block & { text?: { type: string; text: string } }
    if (type === 'header' && (said?.type !== 'plain_text' || said.text.length > 150))
      faults.push('a header of plain text, up to 150')
    if (
      type === 'actions' &&
      (elements ?? []).some((item) => ((item as Json)['text'] as { text: string }).text.length > 75)
    )
      faults.push('a button’s text')
    if (!['header', 'rich_text', 'actions', 'input'].includes(type)) faults.push(`a block \`${type}\``)
  }
  return faults[0]
}

export class FakeSlack {
  readonly messages: SlackMessage[] = []
  readonly views: { view: Json; trigger: string }[] = []
  /** Ephemeral messages. */
  readonly alone: string[] = []
  readonly calls: { method: string; at: number; authorization: string }[] = []
  /** Overrides the API's responses. */
  instead: Reply = () => false
  readonly #server: Server
  #count = 0

  private constructor() {
    this.#server = createServer((request, response) => void this.#take(request, response))
  }

  static async open(): Promise<FakeSlack> {
    const slack = new FakeSlack()
    await new Promise<void>((done) => slack.#server.listen(0, '127.0.0.1', done))
    return slack
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }

  /** The setting that makes a stack use this fake instead of Slack. */
  get standIns(): Record<string, string> {
    const url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // the address of a TCP server
    return Object.fromEntries(ORIGINS.map((origin) => [origin, url]))
  }

  /** The current messages about a call; each names it. */
  about(call: string): SlackMessage[] {
    return this.messages.filter(({ blocks }) => JSON.stringify(blocks).includes(`"${call}"`))
  }

  // ── The API ──

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse((await text(request)) || '{}') as Json // the app's; validated below
    const [, first, method = ''] = (request.url ?? '').split('/')
    const say = (answer: Json): void =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    if (first === 'services') {
      this.#post('webhook', body)
      return void response.writeHead(200, { 'content-type': 'text/plain' }).end('ok')
    }
    if (first === 'actions') return say(this.#reply(method, body))
    const authorization = request.headers.authorization ?? ''
    this.calls.push({ method, at: Date.now(), authorization })
    if (this.instead(response, method, this.calls.filter((call) => call.method === method).length)) return
    if (authorization !== `Bearer ${TOKEN}`) return say({ ok: false, error: 'invalid_auth' })
    say(this.#called(method, body))
  }

  #called(method: string, body: Json): Json {
    if (method === 'views.open') {
      const view = body['view'] as Json
      const fault = faultIn(view['blocks'], 100)
      if (fault !== undefined) return { ok: false, error: 'invalid_arguments' }
      this.views.push({ view, trigger: String(body['trigger_id']) })
      return { ok: true, view: { id: 'V0' } }
    }
    if (faultIn(body['blocks'], 50) !== undefined) return { ok: false, error: 'invalid_blocks' }
    if (method === 'chat.postMessage') {
      const { channel, ts, blocks } = this.#post(String(body['channel']), body)
      return { ok: true, channel, ts, message: { text: body['text'], blocks } }
    }
    const message = this.messages.find(({ channel, ts }) => channel === body['channel'] && ts === body['ts'])
    if (method !== 'chat.update' || message === undefined)
      return { ok: false, error: method === 'chat.update' ? 'message_not_found' : 'unknown_method' }
    Object.assign(message, { text: body['text'], blocks: body['blocks'], edits: message.edits + 1 })
    return { ok: true, channel: message.channel, ts: message.ts }
  }

  /** Slack keeps messages to a person in a conversation with its own id. */
  #post(to: string, body: Json): SlackMessage {
    this.#count++
    const channel = to.startsWith('U') ? `D${to.slice(1)}` : to
    const message = {
      channel,
      ts: `1790000000.${String(this.#count).padStart(6, '0')}`,
      text: String(body['text']),
      blocks: body['blocks'] as Block[],
      edits: 0,
    }
    this.messages.push(message)
    return message
  }

  #reply(ts: string, body: Json): Json {
    const message = this.messages.find((one) => one.ts === ts)
    if (body['response_type'] === 'ephemeral') this.alone.push(String(body['text']))
    else if (message !== undefined)
      Object.assign(message, { text: body['text'], blocks: body['blocks'], edits: message.edits + 1 })
    return { ok: true }
  }
}

// ── Interactions ──

/** The buttons of a message by their use. */
export const buttonsOf = ({ blocks }: Pick<SlackMessage, 'blocks'>): Map<string, Json> =>
  new Map(
    blocks
      .flatMap(({ type, elements = [] }) => (type === 'actions' ? elements : []))
      .map((item) => [String(item['action_id']), item]),
  )

type Who = { user?: string; team?: string; home?: string; app?: string }
const from = ({ user = 'U0ANN', team = TEAM, home = team, app = APP }: Who): Json => ({
  api_app_id: app,
  token: 'deprecated',
  team: { id: team, domain: 'example' },
  user: { id: user, username: 'x', name: 'x', team_id: home },
  enterprise: null,
  is_enterprise_install: false,
  trigger_id: '1.2.3',
})

export function press(message: SlackMessage, button: string, who: Who = {}): Json {
  const action = buttonsOf(message).get(button)
  if (action === undefined) throw new Error(`the message has no button \`${button}\``)
  return {
    ...from(who),
    type: 'block_actions',
    container: { type: 'message', message_ts: message.ts, channel_id: message.channel, is_ephemeral: false },
    channel: { id: message.channel, name: 'room' },
    message: { ts: message.ts, text: message.text, blocks: message.blocks },
    state: { values: {} },
    response_url: `https://hooks.slack.com/actions/${message.ts}`,
    actions: [{ ...action, block_id: 'answer', action_ts: '1790000000.000001' }],
  }
}

export const send = (view: Json, answer: string, reason: string | null, who: Who = {}): Json => ({
  ...from(who),
  type: 'view_submission',
  view: {
    ...view,
    id: 'V0',
    hash: '1',
    state: {
      values: {
        answer: {
          answer: {
            type: 'static_select',
            selected_option: { text: { type: 'plain_text', text: 'x' }, value: answer },
          },
        },
        reason: { reason: { type: 'plain_text_input', value: reason } },
      },
    },
  },
  response_urls: [],
})

type InteractionInput = {
  secret?: string
  at?: number
  change?: (body: string) => string
  signature?: string
  tenant?: string
}

/** A request as Slack sends it. `change` alters it on the way. */
export async function interact(
  edge: string,
  payload: Json,
  { secret = SECRET, at = Date.now(), change, signature, tenant }: InteractionInput = {},
) {
  const body = new URLSearchParams({ payload: JSON.stringify(payload) }).toString()
  const timestamp = String(Math.floor(at / 1000))
  const own = `v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`
  const begun = Date.now()
  const answer = await fetch(
    `${edge}/v1/channels/slack/interactions${tenant === undefined ? '' : `?tenant=${tenant}`}`,
    {
      method: 'POST',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-slack-request-timestamp': timestamp,
        'x-slack-signature': signature ?? own,
      },
      body: change === undefined ? body : change(body),
    },
  )
  const said = await answer.text()
  return {
    status: answer.status,
    body: said === '' ? null : (JSON.parse(said) as Json),
    took: Date.now() - begun,
  }
}

/** All texts of a card, each with the type of the block that it is in. */
export function textsIn(node: unknown, type = ''): [type: string, text: string][] {
  if (Array.isArray(node)) return node.flatMap((item) => textsIn(item, type))
  if (typeof node !== 'object' || node === null) return []
  const own = 'type' in node ? String(node.type) : type
  return Object.entries(node).flatMap(([name, item]) =>
    name === 'text' && typeof item === 'string' ? [[own, item] as [string, string]] : textsIn(item, own),
  )
}
