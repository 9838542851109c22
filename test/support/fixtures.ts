// Creates agents, operators and tools for a test of the edge on the shared stack. Names begin with
// the test's prefix, so that test files don't collide. A test restores every tenant-wide setting
// that it changes.

import type { DevInfo } from '../../infra/seed.ts'
import type { Result } from '../../shared/result.ts'
import { bearer, type Client, client, type Problem } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { AgentSpec } from '../../shared/wire/principals.ts'
import type { ProcessToolSpec as ToolSpec } from '../../shared/wire/tools.ts'

/** The value of a successful answer; throws for a refusal. */
export function unwrap<T>(answer: Result<T, Problem>): T {
  if (answer.ok) return answer.value
  throw new Error(`the edge answered ${JSON.stringify(answer.error)}`)
}

/** Status and code of a refusal, or a text that says that there was no refusal. */
export function refusalOf<T>(answer: Result<T, Problem>): string {
  return answer.ok
    ? `no refusal: ${JSON.stringify(answer.value)}`
    : `${answer.error.status} ${answer.error.code}`
}

type Principal = { readonly name: string; readonly key: string; readonly client: Client }
type ToolChange = Partial<Omit<ToolSpec, 'executor'>> & { executor?: Partial<ToolSpec['executor']> }

/** A harmless tool that needs no approval, with the given changes. */
export const toolSpec = ({ executor, ...rest }: ToolChange = {}): ToolSpec => ({
  description: 'a tool of a test',
  input_schema: { type: 'object', properties: { text: { type: 'string' } } },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['true'], stdin: 'none', ...executor },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'call',
  limits: {},
  ...rest,
})

export class Fixtures {
  readonly #prefix: string
  readonly #dev: DevInfo
  readonly root: Client
  #count = 0

  constructor(prefix: string, dev: DevInfo) {
    this.#prefix = prefix
    this.#dev = dev
    this.root = client(dev.url, bearer(dev.operator_key))
  }

  get url(): string {
    return this.#dev.url
  }
  get rootKey(): string {
    return this.#dev.operator_key
  }

  name(): string {
    this.#count++
    return `${this.#prefix}-${this.#count}`
  }

  /**
   * A new agent. Unless `pool` says otherwise, no worker of the stack serves it, so only the test
   * claims its calls.
   */
  async agent(spec: Partial<AgentSpec> = {}): Promise<Principal> {
    const name = this.name()
    const made = unwrap(
      await this.root('putAgent', {
        params: { name },
        body: { tools: ['*'], pool: `${this.#prefix}-pool`, ...spec },
      }),
    )
    return this.#principal(name, made.key)
  }

  async operator(roles: string[]): Promise<Principal> {
    const name = this.name()
    return this.#principal(
      name,
      unwrap(await this.root('putOperator', { params: { name }, body: { roles } })).key,
    )
  }

  /** A client with a key that an answer held. */
  clientOf(key: string | undefined): Client {
    return this.#principal('', key).client
  }

  #principal(name: string, key: string | undefined): Principal {
    if (key === undefined) throw new Error(`\`${name}\` is not new, so it got no key`)
    return { name, key, client: client(this.url, bearer(key)) }
  }

  async tool(change: ToolChange = {}, name = this.name()): Promise<string> {
    unwrap(await this.root('putTool', { params: { name }, body: toolSpec(change) }))
    return name
  }

  /** A sensitive tool that takes any arguments and prints `words`. */
  echoTool(): Promise<string> {
    return this.tool({
      capabilities: ['process_exec'],
      input_schema: { type: 'object' },
      executor: { argv: ['echo', '{...words}'] },
    })
  }

  get pool(): string {
    return `${this.#prefix}-pool`
  }

  /** A call that waits for an approval. */
  async proposeForApproval(
    by: Client,
    tool: string,
    args: Record<string, unknown> = {},
  ): Promise<Call & { approval: NonNullable<Call['approval']> }> {
    const call = unwrap(await by('proposeCallInNewRun', { body: { tool, args } }))
    if (call.approval === undefined || call.state !== 'awaiting_approval')
      throw new Error(`the call is ${call.state}`)
    return { ...call, approval: call.approval }
  }

  /** Root's approval of a call. The answer may be a refusal. */
  approve(approval: string) {
    return this.root('answerApproval', { params: { id: approval }, body: { decision: 'approve' } })
  }

  /** The approval link of this operator. */
  async link(operator: Client, approval: string): Promise<string> {
    const { url } = unwrap(await operator('readApproval', { params: { id: approval } }))
    if (url === undefined) throw new Error('the approval shows no link')
    return url
  }

  /**
   * Runs `work` with changed tenant policies, where `null` removes one. Restores the policies
   * afterwards, even after an error.
   */
  async withPolicies<T>(
    changes: Readonly<Record<string, string | null>>,
    work: () => Promise<T>,
  ): Promise<T> {
    const { policies } = unwrap(await this.root('readPolicies', {}))
    const changed = Object.entries({ ...policies, ...changes }).filter(
      (entry): entry is [string, string] => entry[1] !== null,
    )
    unwrap(
      await this.root('putPolicies', { body: { policies: Object.fromEntries(changed), note: 'a test' } }),
    )
    try {
      return await work()
    } finally {
      unwrap(await this.root('putPolicies', { body: { policies, note: 'as before the test' } }))
    }
  }
}
