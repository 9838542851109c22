// One look at an upstream: which protocol it speaks, and which tools it lists. Nothing is executed.

import type { Json } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { MAX_UPSTREAM_LIMITS } from '../../shared/upstream-limits.ts'
import type { HttpUpstream } from '../../shared/wire/upstreams.ts'
import type { Env } from '../bindings.ts'
import { outboundNetwork } from '../bindings.ts'
import type { LoadedDirectory } from '../directory/loaded-directory.ts'
import { upstreamCredentials, upstreamHosts } from '../tools/planner.ts'
import { type Era, UpstreamClient } from './client.ts'
import { UpstreamRequests } from './requests.ts'

export type Look = { readonly era: Era; readonly tools: readonly Json[] }

/** A server that the edge itself calls. */
export type RemoteServer = Pick<HttpUpstream, 'url' | 'auth'> & { readonly name: string }

/** A secret lists an upstream as its user under this name. */
const secretUser = (upstream: string): string => `upstream:${upstream}`

/** The value of the secret of an upstream; null if it needs none; a reason if it is withheld. */
export function upstreamSecret(
  { vault }: Pick<LoadedDirectory, 'vault'>,
  { name, url, auth }: RemoteServer,
): Result<string | null, string> {
  if (auth === undefined) return ok(null)
  const credentials = upstreamCredentials({ url, auth })
  const withheld = vault.withholds({ name: secretUser(name), credentials })
  const value = withheld === undefined ? vault.values([auth.secret])?.[auth.secret] : undefined
  return value === undefined ? err(withheld ?? `there is no secret \`${auth.secret}\``) : ok(value)
}

/** `known`: the protocol that the server spoke before; null to ask it. */
export async function lookAt(
  env: Env,
  directory: LoadedDirectory,
  upstream: RemoteServer,
  known: Era | null,
): Promise<Result<Look, string>> {
  const secret = upstreamSecret(directory, upstream)
  if (!secret.ok) return secret
  const { url, auth } = upstream
  const requests = new UpstreamRequests({
    hosts: upstreamHosts(upstream),
    bytes: LIMITS.upstream_list_bytes,
    requests: LIMITS.upstream_pages + MAX_UPSTREAM_LIMITS.net_connections,
    ...outboundNetwork(env),
    signal: AbortSignal.timeout(LIMITS.upstream_look_timeout_ms),
  })
  const client = new UpstreamClient(requests, { url, ...(auth && { auth }), secret: secret.value })
  const era = known === null ? await client.probe() : ok(known)
  if (!era.ok) return err(era.error.why)
  const tools = await client.listTools(era.value)
  return tools.ok ? ok({ era: era.value, tools: tools.value }) : err(tools.error.why)
}
