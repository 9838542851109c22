// Verbs of workers: enrol once, then claim, stream output, settle, prove tiers and send heartbeats.

import { parseJson } from '../../shared/bytes/json.ts'
import { type Envelope, payloadBytes } from '../../shared/evidence/dsse.ts'
import { Statement } from '../../shared/evidence/statement.ts'
import { failure } from '../../shared/failures.ts'
import { keyHash, parseKey, splitId } from '../../shared/ids.ts'
import { err, ok } from '../../shared/result.ts'
import type { Env } from '../bindings.ts'
import { identityOf, runObject, tenantObject } from '../bindings.ts'
import type { WorkerKey } from '../call/settlement.ts'
import type { Identified } from '../http/intake.ts'
import { isTenant } from '../http/known-tenants.ts'
import { isRunOf } from '../run/run-id.ts'
import { type EnrolledWorker, WORKER_IN_USE } from '../workers/request-freshness.ts'
import type { Verbs } from './verb.ts'

export const workerRoutes: Verbs<
  | 'enrol'
  | 'claim'
  | 'readInput'
  | 'putOutput'
  | 'output'
  | 'settle'
  | 'prove'
  | 'rotateWorkerKey'
  | 'heartbeat'
> = {
  async enrol({ env, body: { token, x, name } }) {
    const invalid = err(failure('enrolment_invalid', 'the token is unknown, used or expired'))
    const parsed = parseKey(token)
    if (parsed?.kind !== 'enrol' || !(await isTenant(env, parsed.tenant))) return invalid
    const enrolled = await tenantObject(env, parsed.tenant).enrol(parsed.id, keyHash(token), name, x)
    if (!enrolled.ok) return enrolled
    const { signer } = identityOf(env)
    return ok({ ...enrolled.value, tenant: parsed.tenant, edge: { kid: signer.kid, x: signer.x } })
  },

  async claim({
    env,
    caller,
    body: { run, call, process = null, tiers, egress = false, cgroups = false, profiles = [] },
  }) {
    const { worker, object, n } = findCall(env, caller, call)
    if (object === undefined || splitId(call).run !== run)
      return err(failure('not_claimable', 'no such call'))
    if (worker.process !== null && worker.process !== process) {
      await tenantObject(env, caller.directory.tenant).claimRefused(worker.id, process)
      return err(WORKER_IN_USE)
    }
    return object.claim(n, { ...worker, process }, { tiers, egress, cgroups, profiles })
  },

  async readInput({ env, caller, params: { call, sha256, part } }) {
    const { worker, object, n } = findCall(env, caller, call)
    return object === undefined
      ? err(failure('not_found', 'no such call'))
      : object.inputPart(n, worker.id, sha256, Number(part))
  },

  async putOutput({ env, caller, params: { call, sha256 }, body }) {
    const { worker, object, n } = findCall(env, caller, call)
    return object === undefined
      ? err(failure('not_found', 'no such call'))
      : object.putOutput(n, worker.id, sha256, body)
  },

  async output({ env, caller, params, body: { fence, stream, offset, data } }) {
    const { worker, object, n } = findCall(env, caller, params.call)
    return object === undefined
      ? err(failure('stale_fence', 'no such call'))
      : object.output(n, { worker: worker.id, fence, stream, offset, data: Buffer.from(data, 'base64') })
  },

  async settle({ env, caller, body }) {
    const parsed = parseJson(payloadBytes(body.envelope))
    const call = parsed.ok
      ? Statement.shape.subject.safeParse((parsed.value as { subject?: unknown } | null)?.subject)
      : undefined // `subject` stays unknown until it is parsed
    if (!call?.success) return err(failure('attestation_invalid', 'the statement names no call'))
    const [{ name }] = call.data
    const { worker, object, n } = findCall(env, caller, name)
    const settled =
      object === undefined
        ? err(failure('stale_fence', 'no such call'))
        : await object.settle(n, keyUsed(worker, body.envelope), body)
    return settled.ok ? ok({ call: name, ...settled.value }) : settled
  },

  async prove({ env, caller, body: { envelope } }) {
    const { worker } = caller as Identified & { worker: EnrolledWorker } // the route admits only workers
    return tenantObject(env, caller.directory.tenant).proveWorker(worker.id, envelope)
  },

  async rotateWorkerKey({ env, caller, body: { link } }) {
    const { worker } = caller as Identified & { worker: EnrolledWorker } // the route admits only workers
    return tenantObject(env, caller.directory.tenant).rotateWorkerKey(worker.id, link)
  },

  async heartbeat({ env, caller, body: { tiers, running, ...speaker } }) {
    const { worker } = caller as Identified & { worker: EnrolledWorker } // the route admits only workers
    const seen = await tenantObject(env, caller.directory.tenant).seen(worker.id, tiers, speaker)
    if (!seen.ok) return seen // a refused heartbeat renews no lease
    const byRun = Map.groupBy(running, ({ call }) => splitId(call).run)
    const stops = await Promise.all(
      [...byRun.values()].map((calls) => renewLeases(env, caller, worker.id, calls)),
    )
    return ok({ stop: stops.flat(), now_ms: Date.now() })
  },
}

type HeldCall = { call: string; fence: number }

/**
 * Renews the leases of calls of one run; returns the calls to stop. An unreachable run stops none:
 * its leases decide.
 */
async function renewLeases(
  env: Env,
  caller: Identified,
  worker: string,
  calls: readonly HeldCall[],
): Promise<string[]> {
  const { object } = findCall(env, caller, calls[0]?.call ?? '')
  const numbered = calls.map(({ call, fence }) => ({ n: splitId(call).n, fence }))
  const stop = await object?.renew(worker, numbered).catch((): number[] => [])
  return calls.flatMap(({ call }) => (object === undefined || stop?.includes(splitId(call).n) ? [call] : []))
}

/** A statement that waited in the spool may be signed with an earlier key. */
function keyUsed({ id, kid, x, former }: EnrolledWorker, { signatures: [first] }: Envelope): WorkerKey {
  const earlier = former.find((key) => key.kid === first?.keyid)
  return earlier === undefined
    ? { id, kid, x }
    : { id, kid: earlier.kid, x: earlier.x, until_ms: earlier.untilAt }
}

function findCall(env: Env, { directory: { tenant }, worker }: Identified, call: string) {
  const { run, n } = splitId(call)
  const known = isRunOf(tenant, run, identityOf(env).idKey)
  return { worker: worker as EnrolledWorker, object: known ? runObject(env, tenant, run) : undefined, n } // these routes admit only workers
}
