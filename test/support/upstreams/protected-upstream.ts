// An upstream that a test has registered at a real edge, and the steps that operators take with it.

import { type Bundle, verifyBundle } from '../../../shared/evidence/bundle.ts'
import type { Execution } from '../../../shared/evidence/statement.ts'
import type { Client } from '../../../shared/routes/client.ts'
import type { HttpUpstream, UpstreamToolTerms } from '../../../shared/wire/upstreams.ts'
import { unwrap } from '../fixtures.ts'
import type { FakeUpstream } from './fake-upstream.ts'

export class ProtectedUpstream {
  readonly name: string
  readonly fake: FakeUpstream
  readonly #operator: Client

  constructor(name: string, fake: FakeUpstream, operator: Client) {
    this.name = name
    this.fake = fake
    this.#operator = operator
  }

  async put(spec: Partial<HttpUpstream> = {}): Promise<void> {
    const body: HttpUpstream = { kind: 'http', url: this.fake.url, ...spec }
    unwrap(await this.#operator('putUpstream', { params: { name: this.name }, body }))
  }

  refresh = () => this.#operator('refreshUpstream', { params: { name: this.name }, body: {} })
  read = async () => unwrap(await this.#operator('readUpstream', { params: { name: this.name } }))
  diff = async (tool: string) =>
    unwrap(await this.#operator('readUpstreamTool', { params: { name: this.name, tool: this.tool(tool) } }))

  /** Our name of one of its tools. */
  tool(name: string): string {
    return `${this.name}_${name}`
  }

  /** Accepts what the server shows now, as not sensitive unless the terms say otherwise. */
  async accept(tool: string, terms: Partial<UpstreamToolTerms> = {}): Promise<string> {
    const { tool: shown } = await this.diff(tool)
    const body = { definition: shown.seen ?? '', sensitive: false, ...terms }
    const params = { name: this.name, tool: this.tool(tool) }
    unwrap(await this.#operator('acceptUpstreamTool', { params, body }))
    return this.tool(tool)
  }

  async stateOf(tool: string): Promise<string | undefined> {
    return (await this.read()).tools.find(({ name }) => name === this.tool(tool))?.state
  }
}

/** The execution that the statement of a call describes, verified offline. */
export async function verifiedExecution(
  reader: Client,
  params: { run: string; call: string },
): Promise<{ readonly execution: Execution; readonly bundle: Bundle }> {
  const [bundle, keys] = await Promise.all([reader('readAttestation', { params }), reader('keys', {})])
  const evidence = unwrap(bundle)
  const { ok, statement, checks } = verifyBundle(evidence, unwrap(keys))
  if (ok && statement !== undefined) return { execution: statement.predicate.execution, bundle: evidence }
  throw new Error(`the attestation does not verify: ${JSON.stringify(checks.filter((check) => !check.ok))}`)
}
