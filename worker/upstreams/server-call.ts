// One request to an MCP server that runs in a sandbox: list its tools, or compare one tool with its
// pin and call it (U01). A request that the server may have acted on is never repeated: without a
// usable answer the outcome is `no_answer`, which ends the call `indeterminate` (U07, L2).

import { canonical, type Json, sha256 } from '../../shared/bytes/json.ts'
import { SIGNED_TEXT_CHARS, toSignableText } from '../../shared/bytes/signable-text.ts'
import { STDIO_ORIGIN, type UpstreamExchange } from '../../shared/evidence/statement.ts'
import { isObject, type Response, type Unreadable } from '../../shared/mcp/messages.ts'
import { refusal, toolResult } from '../../shared/mcp/tool-result.ts'
import { definitionDigest, type McpRequest, type McpToolCall } from '../../shared/plan/mcp-server.ts'
import type { Outcome, ProcessPlan } from '../../shared/plan/plan.ts'
import type { SecretMask } from '../sandbox/streams/secret-mask.ts'
import { requestText, type ServerPipes, ServerSession } from './session.ts'

/** How the conversation ended. `outcome` is absent if the server gave no usable answer. */
type Ending = { readonly outcome?: Outcome; readonly output?: string; readonly why?: string }

export class ServerCall {
  readonly #id: string
  readonly #request: McpRequest
  readonly #executor: ProcessPlan['executor']
  readonly #limits: ProcessPlan['limits']
  readonly #args: Record<string, unknown>
  readonly #mask: SecretMask
  #ending: Ending | undefined
  #sent: string | null = null
  #answered: Uint8Array | null = null

  /** `id` is the call's, which no server can guess before it is called. */
  constructor(
    id: string,
    request: McpRequest,
    { executor, limits }: Pick<ProcessPlan, 'executor' | 'limits'>,
    args: Record<string, unknown>,
    mask: SecretMask,
  ) {
    this.#id = id
    this.#request = request
    this.#executor = executor
    this.#limits = limits
    this.#args = args
    this.#mask = mask
  }

  /** Returns the output of the call, masked. */
  readonly converse = async (pipes: ServerPipes): Promise<Uint8Array> => {
    const session = new ServerSession(pipes)
    this.#ending = await this.#speak(session)
    await session.close()
    return Buffer.from(this.#ending.output ?? '')
  }

  /** `ended`: how the server's process ended, which decides if it gave no answer. */
  outcome(ended: Outcome, cancelled: boolean): Outcome {
    const { outcome, why = GONE } = this.#ending ?? {}
    if (outcome !== undefined && ended.kind !== 'infra') return cleaned(outcome, this.#mask)
    if (cancelled && ended.kind === 'cancelled') return ended
    const how = `${why}${howEnded(ended)}`
    if (this.#sent !== null)
      return outcome === undefined ? cleaned({ kind: 'no_answer', detail: how }, this.#mask) : ended
    if (ended.kind === 'refused' || ended.kind === 'infra') return ended
    return cleaned(unavailable(how), this.#mask)
  }

  /** The exchange that is attested; undefined for a list, whose output is all there is. */
  get exchange(): UpstreamExchange | undefined {
    if (this.#request.method !== 'tools/call') return undefined
    return {
      name: this.#request.upstream,
      origin: STDIO_ORIGIN,
      era: this.#sent === null ? null : 'legacy',
      definition_sha256: this.#request.definition,
      request_sha256: this.#sent === null ? null : sha256(this.#sent),
      response_sha256: this.#answered === null ? null : sha256(this.#answered),
    }
  }

  async #speak(session: ServerSession): Promise<Ending> {
    const opened = await session.open()
    if (!opened.ok) return unsent(opened.error)
    const listed = await session.listTools()
    if (!listed.ok) return unsent(listed.error)
    const tools = this.#masked(listed.value)
    if (this.#request.method === 'tools/list') return this.#list(tools)
    const changed = this.#differs(this.#request, tools)
    return changed === undefined
      ? this.#call(session, this.#request)
      : { outcome: { kind: 'refused', code: 'tool_changed', detail: changed } }
  }

  #list(tools: readonly Json[]): Ending {
    const output = canonical([...tools])
    return Buffer.byteLength(output) > this.#limits.output_bytes
      ? { outcome: { kind: 'output_cap' } }
      : { outcome: { kind: 'returned' }, output }
  }

  /** Compares the definition with the pin, in the process that will be called. */
  #differs({ upstream, tool, definition }: McpToolCall, tools: readonly Json[]): string | undefined {
    const named = tools.filter((one) => isObject(one) && one['name'] === tool)
    const [found] = named
    if (found === undefined || named.length > 1)
      return `the server lists \`${tool}\` ${named.length > 1 ? 'more than once' : 'no more'}; nothing was executed`
    const identity = { name: upstream, command: this.#executor.argv }
    return definitionDigest(identity, found) === definition
      ? undefined
      : `the definition of \`${tool}\` differs from the accepted one; nothing was executed`
  }

  async #call(session: ServerSession, { tool }: McpToolCall): Promise<Ending> {
    const params = { name: tool, arguments: this.#args as Json } // they came in through parseJson
    this.#sent = requestText('tools/call', this.#id, params)
    const answer = await session.request(this.#id, this.#sent)
    return answer.ok ? this.#answer(answer.value) : fault(answer.error)
  }

  #answer(response: Response): Ending {
    const result =
      response.kind === 'error'
        ? { outcome: refusal(response.error), output: '' }
        : toolResult(this.#executor.output, response.result, (value) => this.#masked(value))
    if (result.outcome.kind === 'no_answer') return { why: result.outcome.detail }
    this.#answered = response.bytes
    return result
  }

  /** With the secrets of the call masked in every text and name. */
  #masked<T>(value: T): T {
    return masked(value, this.#mask) as T // masking keeps the shape
  }
}

const GONE = 'the server ended without an answer'

function masked(value: unknown, mask: SecretMask): unknown {
  if (typeof value === 'string') return mask.text(value)
  if (Array.isArray(value)) return value.map((item) => masked(item, mask))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [mask.text(name), masked(item, mask)]),
  )
}

/** Masks before it cuts: part of a secret is secret too (V01). */
const cleaned = (outcome: Outcome, mask: SecretMask): Outcome =>
  'detail' in outcome
    ? { ...outcome, detail: toSignableText(mask.text(outcome.detail), SIGNED_TEXT_CHARS.detail) }
    : outcome

const unavailable = (why: string): Outcome => ({
  kind: 'refused',
  code: 'upstream_unavailable',
  detail: `nothing was executed: ${why}`,
})

/** Before the call was sent: nothing was executed, whatever the server did wrong. */
const unsent = ({ kind, why }: Unreadable): Ending =>
  why === GONE && kind === 'unreadable' ? { why } : { outcome: unavailable(why) }

/** After the call was sent. */
function fault({ kind, why }: Unreadable): Ending {
  if (kind === 'wants_input') return { outcome: { kind: 'upstream_wants_input', detail: why } }
  if (kind === 'too_large') return { outcome: { kind: 'output_cap' } }
  return { why }
}

/** In words, for a server that gave no answer. */
function howEnded(ended: Outcome): string {
  switch (ended.kind) {
    case 'exit':
      return ` (exit ${ended.code})`
    case 'signal':
      return ` (${ended.signal})`
    case 'timeout':
      return ': its time was over'
    case 'memory_cap':
    case 'cpu_cap':
    case 'workspace_cap':
    case 'output_cap':
      return `: it exceeded a limit (\`${ended.kind}\`)`
    case 'cancelled':
      return ': the worker stopped it'
    case 'infra':
      return `: ${ended.detail}`
    default:
      return ''
  }
}
