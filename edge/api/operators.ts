// What operators may do: answer approvals, and keep the tenant's directory.

import { failure } from '../../shared/failures.ts'
import { split } from '../../shared/ids.ts'
import { err, ok } from '../../shared/result.ts'
import type { Approval } from '../../shared/wire/approvals.ts'
import type { Tool } from '../../shared/wire/tools.ts'
import { linkOf } from '../approvals/link-url.ts'
import type { Env } from '../bindings.ts'
import { identityOf, logObject, runObject, tenantObject } from '../bindings.ts'
import { authorize } from '../decision/decide.ts'
import type { Identified } from '../http/intake.ts'
import { waitMs } from '../http/intake.ts'
import { headersOf } from '../http/response-headers.ts'
import { argumentTypes, typeText } from '../policy/argument-typing.ts'
import { isRunOf } from '../run/run-id.ts'
import { askMetrics, METRICS_TYPE, workerMetrics } from '../tenant/metrics.ts'
import { checkCredentials, checkWorkspace } from '../tools/planner.ts'
import { checkSchema, checkSpends } from '../tools/schema-rules.ts'
import type { Verbs } from './verb.ts'

type Names =
  | 'listApprovals'
  | 'askMetrics'
  | 'workerMetrics'
  | 'listChanges'
  | 'readApproval'
  | 'answerApproval'
  | 'readArguments'
  | 'previewAnswer'
  | 'revokeLinks'
  | 'listCalls'
  | 'putTool'
  | 'readTool'
  | 'deleteTool'
  | 'putAgent'
  | 'listAgents'
  | 'rotateAgentKey'
  | 'rotateOperatorKey'
  | 'deleteAgent'
  | 'putOperator'
  | 'listOperators'
  | 'deleteOperator'
  | 'createEnrolment'
  | 'listWorkers'
  | 'readWorker'
  | 'revokeWorker'

export const operatorRoutes: Verbs<Names> = {
  async listApprovals({ env, caller, query }) {
    const approvals = await here(env, caller).approvals(query)
    return ok({ items: approvals.map((approval) => withLink(env, caller, approval)) })
  },

  async askMetrics({ env, caller }) {
    return ok(
      new Response(askMetrics(await here(env, caller).figures()), { headers: headersOf(METRICS_TYPE) }),
    )
  },

  async workerMetrics({ env, caller }) {
    const text = workerMetrics(await here(env, caller).listWorkers(), Date.now())
    return ok(new Response(text, { headers: headersOf(METRICS_TYPE) }))
  },

  async listChanges({ env, request, caller, query: { after } }) {
    const { items, latest } = await here(env, caller).changes(after ?? null, waitMs(request))
    return ok({
      items: items.map(({ seq, approval }) => ({ seq, approval: withLink(env, caller, approval) })),
      latest,
    })
  },

  async readApproval({ env, caller, params }) {
    const place = approvalPlace(env, caller, params.id)
    if (!place.ok) return place
    const approval = await place.value.run.approval(place.value.n, {
      by: caller.principal.name,
      channel: 'api',
    })
    return approval.ok ? ok(withLink(env, caller, approval.value)) : approval
  },

  async answerApproval({ env, caller, params, body }) {
    const place = approvalPlace(env, caller, params.id)
    return place.ok ? place.value.run.answer(place.value.n, caller.principal.name, 'api', body) : place
  },

  async readArguments({ env, caller, params }) {
    const place = approvalPlace(env, caller, params.id)
    return place.ok ? place.value.run.editable(place.value.n) : place
  },

  async previewAnswer({ env, caller, params, body }) {
    const place = approvalPlace(env, caller, params.id)
    if (!place.ok) return place
    const seen = await place.value.run.preview(place.value.n, caller.principal.name, 'api', body.arguments)
    return seen.ok ? ok(seen.value.preview) : seen
  },

  async revokeLinks({ env, caller, params, query: { of = null } }) {
    const place = approvalPlace(env, caller, params.id)
    if (!place.ok) return place
    if (of !== null && !caller.directory.operators.has(of))
      return err(failure('not_found', `no operator \`${of}\``))
    return place.value.run.revokeLinks(place.value.n, caller.principal.name, of)
  },

  async listCalls({ env, request, caller, query }) {
    return ok({
      items: await logObject(env, caller.directory.tenant).ended(query.after, query.last, waitMs(request)),
    })
  },

  async putTool({ env, caller, params, body }) {
    for (const schema of [body.input_schema, body.output_schema]) {
      const checked = schema === undefined ? ok(schema) : checkSchema(schema)
      if (!checked.ok) return checked
    }
    const adds = checkSpends(body)
    if (!adds.ok) return adds
    const reached = checkCredentials(body)
    if (!reached.ok) return reached
    const placed = checkWorkspace(body)
    if (!placed.ok) return placed
    const put = await here(env, caller).putTool(params.name, body, caller.principal.name)
    return put.ok ? ok(withTypes(put.value)) : put
  },

  async readTool({ caller, params }) {
    const tool = caller.directory.tools.get(params.name)?.tool
    return tool === undefined ? err(failure('not_found', `no tool \`${params.name}\``)) : ok(withTypes(tool))
  },

  async deleteTool({ env, caller, params }) {
    return here(env, caller).deleteTool(params.name)
  },

  async putAgent({ env, caller, params, body }) {
    const done = await here(env, caller).putAgent(params.name, body, caller.principal.name)
    return done.ok ? ok({ ...done.value.spec, ...without(done.value) }) : done
  },
  async listAgents({ env, caller }) {
    return ok({
      items: (await here(env, caller).listAgents()).map((agent) => ({ ...agent.spec, ...without(agent) })),
    })
  },
  async rotateAgentKey({ env, caller, params }) {
    const done = await here(env, caller).rotateAgentKey(params.name)
    return done.ok ? ok({ ...done.value.spec, ...without(done.value) }) : done
  },
  async deleteAgent({ env, caller, params }) {
    return here(env, caller).deleteAgent(params.name)
  },

  async putOperator({ env, caller, params, body }) {
    const done = await here(env, caller).putOperator(params.name, body)
    return done.ok ? ok({ ...done.value.spec, ...without(done.value) }) : done
  },
  async listOperators({ env, caller }) {
    return ok({
      items: (await here(env, caller).listOperators()).map((operator) => ({
        ...operator.spec,
        ...without(operator),
      })),
    })
  },
  async rotateOperatorKey({ env, caller, params }) {
    const done = await here(env, caller).rotateOperatorKey(params.name)
    return done.ok ? ok({ ...done.value.spec, ...without(done.value) }) : done
  },
  async deleteOperator({ env, caller, params }) {
    return here(env, caller).deleteOperator(params.name)
  },

  async createEnrolment({ env, caller, body }) {
    return ok(await here(env, caller).createEnrolment(body.pool))
  },
  async listWorkers({ env, caller }) {
    return ok({ items: (await here(env, caller).listWorkers()).map(({ envelope: _, ...worker }) => worker) })
  },
  async readWorker({ env, caller, params }) {
    const worker = (await here(env, caller).listWorkers()).find(({ id }) => id === params.worker)
    return worker === undefined ? err(failure('not_found', 'no such worker')) : ok(worker)
  },
  async revokeWorker({ env, caller, params }) {
    return here(env, caller).revokeWorker(params.worker)
  },
}

const here = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)
const without = ({ name, created_at_ms, key }: { name: string; created_at_ms: number; key?: string }) => ({
  name,
  created_at_ms,
  ...(key === undefined ? {} : { key }),
})

/** A tool, and what policies can read of its arguments. */
function withTypes(tool: Tool) {
  const { record, unseen } = argumentTypes(tool.input_schema)
  return { ...tool, policy: { args: typeText(record), unseen: [...unseen] } }
}

function approvalPlace(env: Env, { directory: { tenant } }: Identified, id: string) {
  const { run, n } = split(id)
  return isRunOf(tenant, run, identityOf(env).idKey)
    ? ok({ run: runObject(env, tenant, run), n })
    : err(failure('not_found', 'no such approval'))
}

/** Each operator who may answer sees a link of their own: an answer through it is theirs. */
function withLink(env: Env, { directory, principal }: Identified, approval: Approval): Approval {
  const mayAnswer = authorize(directory, principal, 'approval.decide').allowed
  const url =
    approval.status === 'pending' && mayAnswer ? linkOf(env, directory, approval, principal.name) : null
  return url === null ? approval : { ...approval, url }
}
