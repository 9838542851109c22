// The part that all adapters share: a model's tool call becomes a call of one run, under a key that
// is made of the conversation and the model's own id of the call. A framework that runs a tool
// again after a pause, in this process or another, thereby gets the call that was proposed before.

import type { Call, Run, ToolSummary } from '../api.ts'
import { refusalText, textFor } from '../call-text.ts'
import { type Countersign, hasEnded } from '../client.ts'
import { sha256 } from '../files.ts'

export type GuardOptions = {
  /**
   * Names the conversation, which is one run with one budget, and the session that standing answers
   * apply to. Use the same name after a restart: it leads to the calls that were proposed before.
   */
  readonly conversation: string
  /** The names of the tools to make. Default: all that the agent may call. */
  readonly tools?: readonly string[]
}

/** A call that waits, as the program gets it and may show it to its user. */
export type Pending = {
  readonly call: string
  readonly run: string
  readonly tool: string
  readonly state: Call['state']
  /** The page on which an operator answers, and when it expires. Set while an approval is awaited. */
  readonly page?: string
  readonly expiresAt?: number
}

/** The calls of a conversation, and the definitions of its tools. */
export type Conversation = { readonly calls: GuardedCalls; readonly known: readonly ToolSummary[] }

export class GuardedCalls {
  readonly #agent: Countersign
  readonly #conversation: string
  #run: Promise<Run> | undefined

  constructor(agent: Countersign, { conversation }: GuardOptions) {
    if (!/^[\x21-\x7e]{1,128}$/.test(conversation))
      throw new TypeError('`conversation` must have 1 to 128 printable ASCII characters without spaces')
    this.#agent = agent
    this.#conversation = conversation
  }

  static async open(agent: Countersign, options: GuardOptions): Promise<Conversation> {
    const calls = new GuardedCalls(agent, options)
    const known = await agent.tools()
    const names = options.tools ?? known.map(({ name }) => name)
    const missing = names.find((name) => !known.some((tool) => tool.name === name))
    if (missing !== undefined)
      throw new TypeError(
        `the agent has no tool \`${missing}\`; it has ${known.map(({ name }) => name).join(', ')}`,
      )
    return { calls, known: known.filter(({ name }) => names.includes(name)) }
  }

  /** The text that the model reads about its tool call, after its end or its refusal. */
  async textOf(id: string, tool: string, args: unknown, signal?: AbortSignal): Promise<string> {
    try {
      return textFor(await this.settled(await this.propose(id, tool, args, signal), signal))
    } catch (error) {
      return refusalText(error)
    }
  }

  /** The call of the model's tool call `id`, proposed if it is new. */
  async propose(id: string, tool: string, args: unknown, signal?: AbortSignal): Promise<Call> {
    if (id === '') throw new TypeError('the tool call has no id, so it could run twice')
    const run = await this.#openRun()
    return this.#agent.propose(tool, objectOf(args), {
      run,
      idempotencyKey: await keyFor(this.#conversation, id),
      ...(signal === undefined ? {} : { signal }),
    })
  }

  /** The call after its end. */
  async settled(call: Call, signal?: AbortSignal): Promise<Call> {
    return hasEnded(call) ? call : this.#agent.wait(call, signal === undefined ? {} : { signal })
  }

  async #openRun(): Promise<Run> {
    const spec = { session: this.#conversation }
    this.#run ??= keyFor(this.#conversation, '').then((idempotencyKey) =>
      this.#agent.createRun(spec, { idempotencyKey }),
    )
    try {
      return await this.#run
    } catch (error) {
      this.#run = undefined // the next call tries again
      throw error
    }
  }
}

const keyFor = async (conversation: string, id: string): Promise<string> =>
  `guard-${await sha256(new TextEncoder().encode(JSON.stringify([conversation, id])))}`

const objectOf = (args: unknown): Readonly<Record<string, unknown>> => {
  if (args === undefined || args === null) return {}
  if (typeof args === 'object' && !Array.isArray(args)) return args as Record<string, unknown> // checked here
  throw new TypeError('the arguments of a tool call must be an object')
}

export const pendingOf = ({ id, run, tool, state, approval }: Call): Pending => ({
  call: id,
  run,
  tool,
  state,
  ...(approval === undefined ? {} : { page: approval.page, expiresAt: approval.expires_at }),
})
