// Verbs of the AuthZEN Authorization API 1.0. An evaluation is a dry run of a call (`dry-run.ts`):
// it decides like a proposal, and binds nothing. Any error makes the decision false, so that a
// caller who reads `decision` alone fails closed (L6).

import { entryOf, type Failure, type FieldError, failure } from '../../shared/failures.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { inOneLine, readAs } from '../../shared/schema/field-errors.ts'
import type { AccessDecision, Evaluations } from '../../shared/wire/authzen.ts'
import { Evaluation, EvaluationContext, ToolProperties } from '../../shared/wire/authzen.ts'
import type { Env } from '../bindings.ts'
import { identityOf } from '../bindings.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import type { Identified } from '../http/intake.ts'
import { namedAgent } from '../http/intake.ts'
import { dryRun } from './dry-run.ts'
import type { Verbs } from './verb.ts'

type RouteNames = 'evaluateAccess' | 'evaluateAccesses' | 'authzenConfiguration'

export const authzenRoutes: Verbs<RouteNames> = {
  async evaluateAccess({ env, caller, body }) {
    return evaluate(env, caller, body)
  },

  async evaluateAccesses({ env, caller, body: { evaluations = [], options, ...defaults } }) {
    if (evaluations.length === 0) {
      const single = readAs(Evaluation, defaults)
      return single.ok ? evaluate(env, caller, single.value) : err(incomplete(single.error))
    }
    const semantic = options?.evaluations_semantic ?? 'execute_all'
    const answers: AccessDecision[] = []
    for (const given of evaluations) {
      const whole = readAs(Evaluation, withDefaults(given, defaults))
      const answer = whole.ok ? await evaluate(env, caller, whole.value) : err(incomplete(whole.error))
      const { decision, context } = answer.ok ? answer.value : undecided(answer.error)
      answers.push({ decision, context })
      if (semantic === (decision ? 'permit_on_first_permit' : 'deny_on_first_deny')) break
    }
    return ok({ evaluations: answers })
  },

  async authzenConfiguration({ env }) {
    const { publicUrl } = identityOf(env)
    return ok({
      policy_decision_point: publicUrl,
      access_evaluation_endpoint: `${publicUrl}/access/v1/evaluation`,
      access_evaluations_endpoint: `${publicUrl}/access/v1/evaluations`,
    })
  },
}

/** An error is a fault on our side: the evaluation could not be made, and may be tried again. */
async function evaluate(env: Env, caller: Identified, asked: Evaluation): Promise<Result<AccessDecision>> {
  const read = readEvaluation(caller, asked)
  if (!read.ok) return ok(undecided(read.error))
  const tried = await dryRun(env, caller, read.value)
  if (!tried.ok) return entryOf(tried.error.code).fault === 'us' ? tried : ok(undecided(tried.error))
  const { effect, code, reason, policies, policy_set, explanation } = tried.value.decision
  return ok({
    decision: effect === 'allow',
    context: {
      reason,
      code,
      policies,
      policy_set,
      ...(explanation === undefined ? {} : { explanation }),
      ...(effect === 'ask'
        ? {
            access_request: { endpoint: `${identityOf(env).publicUrl}/v1/calls`, tool: read.value.tool },
          }
        : {}),
    },
  })
}

/** The hypothetical call of an evaluation. Only agents can call, and only tools can be called. */
function readEvaluation(caller: Identified, { subject, action, resource, context = {} }: Evaluation) {
  if (subject.type !== 'agent') return err(failure('not_found', 'the only type of subject here is `agent`'))
  if (action.name !== 'tools/call') return err(failure('not_found', 'the only action here is `tools/call`'))
  if (resource.type !== 'tool') return err(failure('not_found', 'the only type of resource here is `tool`'))
  const agent = subjectOf(caller, subject.id)
  if (!agent.ok) return agent
  const properties = readAs(ToolProperties, resource.properties ?? {})
  if (!properties.ok) return err(unreadable('resource.properties', properties.error))
  const run = readAs(EvaluationContext, context)
  if (!run.ok) return err(unreadable('context', run.error))
  const { arguments: args, files } = properties.value
  return ok({ agent: agent.value, tool: resource.id, args, files, run: run.value })
}

function subjectOf(caller: Identified, id: string): Result<AgentPrincipal> {
  const named = namedAgent(caller, id)
  return !named.ok && named.error.code === 'forbidden'
    ? err(failure('forbidden', 'an agent can ask only about itself: send its own name as `subject.id`'))
    : named
}

const unreadable = (part: string, errors: readonly FieldError[]): Failure =>
  failure('invalid_request', `\`${part}\` can’t be read`, errors)
const incomplete = (errors: readonly FieldError[]): Failure =>
  failure('invalid_request', 'the evaluation is incomplete', errors)

function undecided({ code, detail, errors = [] }: Failure): AccessDecision {
  const message = errors.length === 0 ? detail : `${detail}: ${inOneLine(errors)}`
  return {
    decision: false,
    context: { reason: message, error: { status: entryOf(code).status, code, message } },
  }
}

/**
 * An entity of an evaluation replaces the default one, except that `type`, `id` and `name` are
 * taken from the default where it has none.
 */
function withDefaults(
  { subject, action, resource, context }: Record<string, unknown>,
  defaults: Omit<Evaluations, 'evaluations' | 'options'>,
): unknown {
  return {
    subject: completed(subject, defaults.subject),
    action: completed(action, defaults.action),
    resource: completed(resource, defaults.resource),
    context: context === undefined ? defaults.context : context,
  }
}

function completed(own: unknown, byDefault: object | undefined): unknown {
  if (own === undefined) return byDefault
  if (typeof own !== 'object' || own === null || Array.isArray(own)) return own
  return { ...byDefault, properties: undefined, ...own }
}
