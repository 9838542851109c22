// Calls over MCP in runs of their own, so that a test knows their ids before they are answered.

import { callId, splitId } from '../../shared/ids.ts'
import type { Client } from '../../shared/routes/client.ts'
import type { Call } from '../../shared/wire/calls.ts'
import { eventually } from './eventually.ts'
import { type Fixtures, unwrap } from './fixtures.ts'
import { McpClient } from './http/mcp-client.ts'

type Agent = { readonly key: string; readonly client: Client }

export class McpCalls {
  readonly #fixtures: Fixtures
  readonly #agent: Agent

  constructor(fixtures: Fixtures, agent: Agent) {
    this.#fixtures = fixtures
    this.#agent = agent
  }

  /** A client with a run of its own, whose calls have known ids. */
  async clientInRun(era: 'modern' | 'legacy', capabilities = {}) {
    const { id: run } = unwrap(await this.#agent.client('createRun', { body: {} }))
    const client = new McpClient(this.#fixtures.url, this.#agent.key, era, capabilities)
    return { run, meta: { 'dev.countersign/run': run }, client, call: (n: number) => callId(run, n) }
  }

  async find(id: string): Promise<Call | undefined> {
    const found = await this.#agent.client('readCall', { params: { run: splitId(id).run, call: id } })
    return found.ok ? found.value : undefined
  }

  proposed(id: string): Promise<Call> {
    return eventually(`call ${id} is proposed`, () => this.find(id))
  }

  /** Answers the call's approval as an operator. */
  async answer(id: string, decision: 'approve' | 'deny', reason?: string): Promise<void> {
    const { approval } = await this.proposed(id)
    unwrap(
      await this.#fixtures.root('answerApproval', {
        params: { id: approval?.id ?? '' },
        body: { decision, ...(reason === undefined ? {} : { reason }) },
      }),
    )
  }

  async used(run: string): Promise<number> {
    return unwrap(await this.#agent.client('readRun', { params: { run } })).used.calls
  }
}
