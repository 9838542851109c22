// What a test of the edge works with: the shared stack, its root operator, and agents, operators and tools of its own. Names begin with the
// test's prefix, so that no two files meet; what a test changes for everybody it puts back.

import type { DevInfo } from '../../infra/seed.ts'
import type { Result } from '../../shared/result.ts'
import { bearer, type Client, client, type Problem } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { AgentSpec } from '../../shared/wire/principals.ts'
import type { ProcessToolSpec as ToolSpec } from '../../shared/wire/tools.ts'

/** The value of an answer that must be a success. */
export function granted<T>(answer: Result<T, Problem>): T {
  if (answer.ok) return answer.value
  throw new Error(`the edge answered ${JSON.stringify(answer.error)}`)
}

/** The code of an answer that must be a refusal. */
export function refusal<T>(answer: Result<T, Problem>): string {
  return answer.ok
    ? `no refusal: ${JSON.stringify(answer.value)}`
    : `${answer.error.status} ${answer.error.code}`
}

type Principal = { readonly name: string; readonly key: string; readonly client: Client }
type ToolChange = Partial<Omit<ToolSpec, 'executor'>> & { executor?: Partial<ToolSpec['executor']> }

/** Reads nothing, writes nothing, needs nobody: what a test does not say is as harmless as that. */
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

export class Desk {
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

  /** An agent that no worker of the stack serves, unless `pool` says so: its calls are claimed by the test or by nobody. */
  async agent(spec: Partial<AgentSpec> = {}): Promise<Principal> {
    const name = this.name()
    const made = granted(
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
      granted(await this.root('putOperator', { params: { name }, body: { roles } })).key,
    )
  }

  #principal(name: string, key: string | undefined): Principal {
    if (key === undefined) throw new Error(`\`${name}\` is not new, so it got no key`)
    return { name, key, client: client(this.url, bearer(key)) }
  }

  async tool(change: ToolChange = {}, name = this.name()): Promise<string> {
    granted(await this.root('putTool', { params: { name }, body: toolSpec(change) }))
    return name
  }

  get pool(): string {
    return `${this.#prefix}-pool`
  }

  /** A call of a tool that needs a human, waiting for one. */
  async asked(
    by: Client,
    tool: string,
    args: Record<string, unknown> = {},
  ): Promise<Call & { approval: NonNullable<Call['approval']> }> {
    const call = granted(await by('proposeCallInNewRun', { body: { tool, args } }))
    if (call.approval === undefined || call.state !== 'awaiting_approval')
      throw new Error(`the call is ${call.state}`)
    return { ...call, approval: call.approval }
  }

  /** The link that this operator was given. */
  async link(operator: Client, approval: string): Promise<string> {
    const { url } = granted(await operator('readApproval', { params: { id: approval } }))
    if (url === undefined) throw new Error('the approval shows no link')
    return url
  }

  /**
   * The tenant's own policies while `work` runs: with these beside them, and without those that are `null`. Put back after, come what
   * may.
   */
  async withPolicies<T>(
    changes: Readonly<Record<string, string | null>>,
    work: () => Promise<T>,
  ): Promise<T> {
    const { policies } = granted(await this.root('readPolicies', {}))
    const changed = Object.entries({ ...policies, ...changes }).filter(
      (entry): entry is [string, string] => entry[1] !== null,
    )
    granted(
      await this.root('putPolicies', { body: { policies: Object.fromEntries(changed), note: 'a test' } }),
    )
    try {
      return await work()
    } finally {
      granted(await this.root('putPolicies', { body: { policies, note: 'as before the test' } }))
    }
  }
}
