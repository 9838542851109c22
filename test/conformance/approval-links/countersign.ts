// Gives the suite approvals of a running Countersign: `node countersign.ts open [seconds]`, `node
// countersign.ts look ID`. It needs COUNTERSIGN_URL, COUNTERSIGN_KEY (an operator who approves and
// may put tools) and COUNTERSIGN_AGENT_KEY.

import { bearer, client } from '../../../shared/routes/client.ts'
import type { Ask, Seen, Target } from './check.ts'

type Where = { readonly url: string; readonly operatorKey: string; readonly agentKey: string }
type Opened = Pick<Ask, 'link'> & { readonly id: string }

function fixtures({ url, operatorKey, agentKey }: Where) {
  const [operator, agent] = [client(url, bearer(operatorKey)), client(url, bearer(agentKey))]
  /** A call that needs approval and never runs: no worker claims it, and it would do nothing. */
  async function open(seconds?: number): Promise<Opened> {
    const tool = seconds === undefined ? 'conformance_links' : `conformance_links_${seconds}s`
    const put = await operator('putTool', {
      params: { name: tool },
      body: {
        description: 'a question of the conformance suite',
        input_schema: { type: 'object', properties: {} },
        capabilities: ['network'],
        executor: { kind: 'process', tiers: ['C'], argv: ['true'], stdin: 'none' },
        egress: { mode: 'strict', hosts: [] },
        workspace: 'call',
        limits: {},
        ...(seconds === undefined ? {} : { approval_ttl_s: seconds }),
      },
    })
    if (!put.ok) throw new Error(put.error.detail)
    const call = await agent('proposeCallInNewRun', { body: { tool, args: {} } })
    if (!call.ok) throw new Error(call.error.detail)
    const id = call.value.approval?.id ?? ''
    const approval = await operator('readApproval', { params: { id } })
    if (!approval.ok) throw new Error(approval.error.detail)
    if (approval.value.url === undefined) throw new Error(`\`${id}\` has no link for this operator`)
    return { id, link: approval.value.url }
  }
  async function look(id: string): Promise<Seen> {
    const approval = await operator('readApproval', { params: { id } })
    if (!approval.ok) throw new Error(approval.error.detail)
    return { status: approval.value.status, answers: approval.value.answers.length }
  }
  return { open, look }
}

export function countersign(where: Where): Target {
  const { open, look } = fixtures(where)
  return {
    async open(seconds) {
      const { id, link } = await open(seconds)
      return { link, look: () => look(id) }
    },
  }
}

if (import.meta.main) {
  const {
    COUNTERSIGN_URL: url = '',
    COUNTERSIGN_KEY: operatorKey = '',
    COUNTERSIGN_AGENT_KEY: agentKey = '',
  } = process.env
  const { open, look } = fixtures({ url, operatorKey, agentKey })
  const [verb, text] = process.argv.slice(2)
  console.log(
    JSON.stringify(
      verb === 'look' ? await look(text ?? '') : await open(text === undefined ? undefined : Number(text)),
    ),
  )
}
