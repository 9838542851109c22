// Finds the run that a tools/call belongs to: the one that the request names, the one of its
// session, or the agent's run of the day. Runs of sessions are created by their first call.

import { randomBytes } from 'node:crypto'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Env, identityOf, runObject } from '../bindings.ts'
import type { RunRecord } from '../call/run.ts'
import type { AgentPrincipal } from '../directory/loaded-directory.ts'
import { type FoundRun, runOf, runRecord } from '../run/find-run.ts'
import { type OurMeta, SESSION } from './envelope.ts'
import type { Era } from './protocol.ts'
import { invalidParams, type RpcError, rpcError } from './rpc.ts'
import { seal, unseal } from './sealed.ts'

export type RunHandle = {
  readonly run: FoundRun
  readonly runId: string
  /** The run to create if this is its first call; null if the request names an existing run. */
  readonly create: RunRecord | null
  /** Set if only one client uses the run, so that its request ids identify its requests. */
  readonly oneClient: boolean
}

type Caller = { readonly env: Env; readonly agent: AgentPrincipal }

/** Sealed, not stored: clients can't recover when a server loses their session. */
export const newSession = ({ env, agent }: Caller): string =>
  seal(identityOf(env).mcpKey, 'session', agent, { nonce: randomBytes(10).toString('base64url') })

const NO_SESSION = rpcError(404, -32600, 'this session is not one of yours; send `initialize` again')

export function sessionNonce({ env, agent }: Caller, headers: Headers): Result<string | null, RpcError> {
  const sent = headers.get('mcp-session-id')
  if (sent === null) return ok(null)
  const opened = unseal(identityOf(env).mcpKey, 'session', agent, sent, Date.now())
  return opened === undefined ? err(NO_SESSION) : ok(opened.nonce)
}

/** `path`: the session that the path names. */
export function findRunFor(
  caller: Caller,
  { era, ours }: { readonly era: Era; readonly ours: OurMeta },
  headers: Headers,
  path: string | null,
): Result<RunHandle, RpcError> {
  const header = headers.get('countersign-session')
  if (header !== null && !SESSION.test(header))
    return err(
      invalidParams('the header `Countersign-Session` must have 1 to 64 characters of `A-Z a-z 0-9 _ . -`'),
    )
  const named = new Set([path, header, ours.session].filter((one) => one !== null && one !== undefined))
  if (named.size + (ours.run === undefined ? 0 : 1) > 1)
    return err(invalidParams('name one run or one session, by path, header or `_meta`'))
  if (ours.run !== undefined) return existing(caller, ours.run)
  const [session] = named
  if (session !== undefined) return ok(created(caller, `mcp ${session}`, session, false))
  const nonce = era === 'legacy' ? sessionNonce(caller, headers) : ok(null)
  if (!nonce.ok) return nonce
  if (nonce.value !== null) return ok(created(caller, `mcp-session ${nonce.value}`, undefined, true))
  if (caller.agent.spec.mcp?.run === 'required')
    return err(
      invalidParams(
        'name your session: send the header `Countersign-Session`, or use the path `/mcp/s/NAME`',
      ),
    )
  const day = new Date().toISOString().slice(0, 10)
  return ok(created(caller, `mcp-day ${day}`, 'mcp', false))
}

function existing({ env, agent }: Caller, id: string): Result<RunHandle, RpcError> {
  const run = runOf(env, agent.tenant, id)
  return run.ok
    ? ok({ run: run.value, runId: id, create: null, oneClient: false })
    : err(invalidParams(run.error.detail))
}

function created(
  { env, agent }: Caller,
  key: string,
  session: string | undefined,
  oneClient: boolean,
): RunHandle {
  const spec = session === undefined ? {} : { session }
  const record = runRecord(env, agent, spec, key)
  return { run: runObject(env, record.tenant, record.id), runId: record.id, create: record, oneClient }
}
