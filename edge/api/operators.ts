// Verbs of operators: answer approvals, and administer tools, agents, operators and workers.

import { failure } from '../../shared/failures.ts'
import { splitId } from '../../shared/ids.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import { runsProcess, type Tool } from '../../shared/wire/tools.ts'
import { linkOf } from '../approvals/link-url.ts'
import type { Env } from '../bindings.ts'
import { channelObject, identityOf, logObject, runObject, tenantObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import { webhookSecret } from '../directory/agent-webhook.ts'
import type { Identified } from '../http/intake.ts'
import { waitMs } from '../http/intake.ts'
import { headersOf } from '../http/response-headers.ts'
import { argumentTypes, typeText } from '../policy/argument-typing.ts'
import { isRunOf } from '../run/run-id.ts'
import { askMetrics, METRICS_TYPE, workerMetrics } from '../tenant/metrics.ts'
import type { AgentRecord } from '../tenant/principal-store.ts'
import { checkProcess, checkUnexecuted } from '../tools/planner.ts'
import { checkSchema, checkSpends } from '../tools/schema-rules.ts'
import { faultInToolName } from '../tools/tool-names.ts'
import type { Verbs } from './verb.ts'

type RouteNames =
  | 'listApprovals'
  | 'askMetrics'
  | 'workerMetrics'
  | 'listChanges'
  | 'readApproval'
  | 'answerApproval'
  | 'readArguments'
  | 'previewAnswer'
  | 'revokeLinks'
  | 'readUsage'
  | 'listEndedCalls'
  | 'putTool'
  | 'readTool'
  | 'deleteTool'
  | 'putAgent'
  | 'listAgents'
  | 'rotateAgentKey'
  | 'rotateAgentWebhook'
  | 'listAgentDeliveries'
  | 'rotateOperatorKey'
  | 'deleteAgent'
  | 'putOperator'
  | 'listOperators'
  | 'deleteOperator'
  | 'createEnrolment'
  | 'listWorkers'
  | 'readWorker'
  | 'revokeWorker'

export const operatorRoutes: Verbs<RouteNames> = {
  async listApprovals({ env, caller, query }) {
    const approvals = await tenantOf(env, caller).approvals(query)
    return ok({ items: approvals.map((approval) => withLink(env, caller, approval)) })
  },

  async askMetrics({ env, caller }) {
    return ok(
      new Response(askMetrics(await tenantOf(env, caller).figures()), { headers: headersOf(METRICS_TYPE) }),
    )
  },

  async workerMetrics({ env, caller }) {
    const text = workerMetrics(await tenantOf(env, caller).listWorkers(), Date.now())
    return ok(new Response(text, { headers: headersOf(METRICS_TYPE) }))
  },

  async listChanges({ env, request, caller, query: { after } }) {
    const { items, latest } = await tenantOf(env, caller).changes(after ?? null, waitMs(request))
    return ok({
      items: items.map(({ seq, approval }) => ({ seq, approval: withLink(env, caller, approval) })),
      latest,
    })
  },

  async readApproval({ env, caller, params }) {
    const found = findApproval(env, caller, params.id)
    if (!found.ok) return found
    const approval = await found.value.run.approval(found.value.n, {
      by: caller.principal.name,
      channel: 'api',
    })
    return approval.ok ? ok(withLink(env, caller, approval.value)) : approval
  },

  async answerApproval({ env, caller, params, body }) {
    const found = findApproval(env, caller, params.id)
    return found.ok ? found.value.run.answer(found.value.n, caller.principal.name, 'api', body) : found
  },

  async readArguments({ env, caller, params }) {
    const found = findApproval(env, caller, params.id)
    return found.ok ? found.value.run.editable(found.value.n) : found
  },

  async previewAnswer({ env, caller, params, body }) {
    const found = findApproval(env, caller, params.id)
    if (!found.ok) return found
    const seen = await found.value.run.preview(found.value.n, caller.principal.name, 'api', body.arguments)
    return seen.ok ? ok(seen.value.preview) : seen
  },

  async revokeLinks({ env, caller, params, query: { of = null } }) {
    const found = findApproval(env, caller, params.id)
    if (!found.ok) return found
    if (of !== null && !caller.directory.operators.has(of))
      return err(failure('not_found', `no operator \`${of}\``))
    return found.value.run.revokeLinks(found.value.n, caller.principal.name, of)
  },

  async readUsage({ env, caller }) {
    return ok(await tenantOf(env, caller).usage())
  },

  async listEndedCalls({ env, request, caller, query }) {
    return ok({
      items: await logObject(env, caller.directory.tenant).ended(query.after, query.last, waitMs(request)),
    })
  },

  async putTool({ env, caller, params, body }) {
    const fault = faultInToolName(params.name)
    if (fault !== undefined) return err(failure('conflict', fault))
    for (const schema of [body.input_schema, body.output_schema]) {
      const checked = schema === undefined ? ok(schema) : checkSchema(schema)
      if (!checked.ok) return checked
    }
    const spends = checkSpends(body)
    if (!spends.ok) return spends
    const contract = runsProcess(body) ? checkProcess(body) : checkUnexecuted(body)
    if (!contract.ok) return contract
    const put = await tenantOf(env, caller).putTool(params.name, body, caller.principal.name)
    return put.ok ? ok(withTypes(put.value)) : put
  },

  async readTool({ caller, params }) {
    const tool = caller.directory.tools.get(params.name)?.tool
    return tool === undefined ? err(failure('not_found', `no tool \`${params.name}\``)) : ok(withTypes(tool))
  },

  async deleteTool({ env, caller, params }) {
    return tenantOf(env, caller).deleteTool(params.name, caller.principal.name)
  },

  async putAgent({ env, caller, params, body }) {
    const saved = await tenantOf(env, caller).putAgent(params.name, body, caller.principal.name)
    return saved.ok ? ok(withSecrets(env, caller, saved.value)) : saved
  },
  async rotateAgentWebhook({ env, caller, params }) {
    const saved = await tenantOf(env, caller).rotateAgentWebhook(params.name, caller.principal.name)
    return saved.ok ? ok(withSecrets(env, caller, saved.value)) : saved
  },
  async listAgentDeliveries({ env, caller, params, query }) {
    if (!caller.directory.agents.has(params.name))
      return err(failure('not_found', `no agent \`${params.name}\``))
    const channels = channelObject(env, caller.directory.tenant)
    return ok({ items: await channels.agentDeliveries(params.name, query.state) })
  },
  async listAgents({ env, caller }) {
    return ok({
      items: (await tenantOf(env, caller).listAgents()).map((agent) => ({
        ...agent.spec,
        ...keyFieldsOf(agent),
      })),
    })
  },
  async rotateAgentKey({ env, caller, params }) {
    const saved = await tenantOf(env, caller).rotateAgentKey(params.name, caller.principal.name)
    return saved.ok ? ok({ ...saved.value.spec, ...keyFieldsOf(saved.value) }) : saved
  },
  async deleteAgent({ env, caller, params }) {
    return tenantOf(env, caller).deleteAgent(params.name, caller.principal.name)
  },

  async putOperator({ env, caller, params, body }) {
    const saved = await tenantOf(env, caller).putOperator(params.name, body, caller.principal.name)
    return saved.ok ? ok({ ...saved.value.spec, ...keyFieldsOf(saved.value) }) : saved
  },
  async listOperators({ env, caller }) {
    return ok({
      items: (await tenantOf(env, caller).listOperators()).map((operator) => ({
        ...operator.spec,
        ...keyFieldsOf(operator),
      })),
    })
  },
  async rotateOperatorKey({ env, caller, params }) {
    const saved = await tenantOf(env, caller).rotateOperatorKey(params.name, caller.principal.name)
    return saved.ok ? ok({ ...saved.value.spec, ...keyFieldsOf(saved.value) }) : saved
  },
  async deleteOperator({ env, caller, params }) {
    return tenantOf(env, caller).deleteOperator(params.name, caller.principal.name)
  },

  async createEnrolment({ env, caller, body }) {
    return ok(await tenantOf(env, caller).createEnrolment(body.pool, caller.principal.name))
  },
  async listWorkers({ env, caller }) {
    return ok({
      items: (await tenantOf(env, caller).listWorkers()).map(({ envelope: _, ...worker }) => worker),
    })
  },
  async readWorker({ env, caller, params }) {
    const worker = (await tenantOf(env, caller).listWorkers()).find(({ id }) => id === params.worker)
    return worker === undefined ? err(failure('not_found', 'no such worker')) : ok(worker)
  },
  async revokeWorker({ env, caller, params, query: { distrusted_from_ms = null } }) {
    return tenantOf(env, caller).revokeWorker(params.worker, distrusted_from_ms, caller.principal.name)
  },
}

const tenantOf = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)
/** The response to a request that made a secret is the only one that has it. */
function withSecrets(env: Env, { directory }: Identified, saved: AgentRecord) {
  const { spec, name: agent, created_at_ms: since, webhookMadeAt } = saved
  const agentOrigin = { tenant: directory.tenant, agent, since }
  return {
    ...spec,
    ...keyFieldsOf(saved),
    ...(webhookMadeAt === undefined
      ? {}
      : { webhook_secret: webhookSecret(identityOf(env), agentOrigin, webhookMadeAt) }),
  }
}

const keyFieldsOf = ({
  name,
  created_at_ms,
  key,
}: {
  name: string
  created_at_ms: number
  key?: string
}) => ({
  name,
  created_at_ms,
  ...(key === undefined ? {} : { key }),
})

/** A tool with the types of its arguments as policies see them. */
function withTypes(tool: Tool) {
  const { record, unseen } = argumentTypes(tool.input_schema)
  return { ...tool, policy: { args: typeText(record), unseen: [...unseen] } }
}

function findApproval(env: Env, { directory: { tenant } }: Identified, id: string) {
  const { run, n } = splitId(id)
  return isRunOf(tenant, run, identityOf(env).idKey)
    ? ok({ run: runObject(env, tenant, run), n })
    : err(failure('not_found', 'no such approval'))
}

/** Adds a personal link for an operator who may answer: an answer through it counts as theirs. */
function withLink(env: Env, { directory, principal }: Identified, approval: Approval): Approval {
  const mayAnswer = authorize(directory, principal, 'approval.decide').allowed
  const url =
    approval.status === 'pending' && mayAnswer ? linkOf(env, directory, approval, principal.name) : null
  return url === null ? approval : { ...approval, url }
}
