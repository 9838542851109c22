// The endpoints for the conformance suite: an agent with registered tools, and agents with the tools
// of a protected server, through a shim that adds the agent's key.

import type { Fixtures } from '../../support/fixtures.ts'
import { unwrap } from '../../support/fixtures.ts'
import type { LoopbackServer } from './loopback-server.ts'
import { NATIVE_TOOLS } from './native-tools.ts'
import { openProtectedServer, PROTECTED_TOOLS } from './protected-server.ts'
import { openShim } from './shim.ts'

/** More calls than the suite makes in one run. */
const BUDGET = { max_calls_per_run: 500 }
/** The tools that the suite expects to become tasks. */
const AS_TASKS: ReadonlySet<string> = new Set(['slow_compute', 'failing_job', 'protocol_error_job'])

export class ConformanceTarget {
  readonly #shim: LoopbackServer
  readonly #server: LoopbackServer | undefined

  private constructor(shim: LoopbackServer, server?: LoopbackServer) {
    this.#shim = shim
    this.#server = server
  }

  static async native(fixtures: Fixtures): Promise<ConformanceTarget> {
    await Promise.all(Object.entries(NATIVE_TOOLS).map(([name, spec]) => fixtures.tool(spec, name)))
    const agent = { tools: Object.keys(NATIVE_TOOLS), pool: 'default', budget: BUDGET }
    const { key } = await fixtures.agent(agent)
    return new ConformanceTarget(await openShim({ edge: fixtures.url, key, asTasks: AS_TASKS }))
  }

  /** Registers a server as an upstream of this name, and accepts all its tools with whole results. */
  static async protecting(fixtures: Fixtures, name: 'modern' | 'legacy'): Promise<ConformanceTarget> {
    const { root } = fixtures
    const server = await openProtectedServer(name)
    unwrap(await root('putUpstream', { params: { name }, body: { kind: 'http', url: server.url } }))
    unwrap(await root('refreshUpstream', { params: { name }, body: {} }))
    const tools = PROTECTED_TOOLS.map((tool) => `${name}_${tool}`)
    await Promise.all(
      tools.map(async (tool) => {
        const params = { name, tool }
        const definition = unwrap(await root('readUpstreamTool', { params })).tool.seen ?? ''
        const body = { definition, sensitive: false, result: 'mcp' } as const
        unwrap(await root('acceptUpstreamTool', { params, body }))
      }),
    )
    const { key } = await fixtures.agent({ tools, budget: BUDGET })
    const prefix = `${name}_`
    const shim = await openShim({ edge: fixtures.url, key, prefix, asTasks: AS_TASKS })
    return new ConformanceTarget(shim, server)
  }

  get url(): string {
    return this.#shim.url
  }

  async close(): Promise<void> {
    await Promise.all([this.#shim.close(), this.#server?.close()])
  }
}
