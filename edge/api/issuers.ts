// Verbs of operators on issuers of tokens, and the metadata with which clients find an issuer
// (RFC 9728).

import { failure } from '../../shared/failures.ts'
import { err, ok } from '../../shared/result.ts'
import type { Issuer } from '../../shared/wire/issuers.ts'
import { identityOf, outboundNetwork, tenantObject } from '../bindings.ts'
import { audiencesFor } from '../directory/trusted-issuer.ts'
import type { Identified } from '../http/intake.ts'
import { resourceMetadata } from '../http/protected-resource.ts'
import { judgeToken } from '../http/token-bearer.ts'
import type { IssuerRecord } from '../tenant/issuer-store.ts'
import { faultsIn } from '../tokens/issuer-faults.ts'
import type { Incoming, Verbs } from './verb.ts'

type RouteNames =
  | 'listIssuers'
  | 'readIssuer'
  | 'putIssuer'
  | 'deleteIssuer'
  | 'testToken'
  | 'resourceMetadata'
  | 'mcpResourceMetadata'

export const issuerRoutes: Verbs<RouteNames> = {
  async listIssuers(incoming) {
    const records = await tenantOf(incoming).listIssuers()
    return ok({ items: records.map((record) => shown(incoming, record)) })
  },
  async readIssuer(incoming) {
    const records = await tenantOf(incoming).listIssuers()
    const record = records.find(({ name }) => name === incoming.params.name)
    return record === undefined
      ? err(failure('not_found', `no issuer \`${incoming.params.name}\``))
      : ok(shown(incoming, record))
  },
  async putIssuer(incoming) {
    const { env, caller, params, body } = incoming
    const faults = faultsIn(body, {
      tenant: caller.directory.tenant,
      publicUrl: identityOf(env).publicUrl,
      loopback: outboundNetwork(env).standIns !== undefined,
    })
    if (faults.length > 0)
      return err(failure('invalid_request', 'the body does not match what this route expects', faults))
    const put = await tenantOf(incoming).putIssuer(params.name, body, caller.principal.name)
    return put.ok ? ok(shown(incoming, put.value)) : put
  },
  async deleteIssuer(incoming) {
    return tenantOf(incoming).deleteIssuer(incoming.params.name, incoming.caller.principal.name)
  },
  async testToken({ env, caller, body }) {
    return judgeToken(body.token.trim(), caller.directory, env)
  },
  async resourceMetadata({ env, query }) {
    return resourceMetadata(env, query.tenant, '')
  },
  async mcpResourceMetadata({ env, query }) {
    return resourceMetadata(env, query.tenant, '/mcp')
  },
}

type FromOperator = Pick<Incoming<'listIssuers'>, 'env'> & { caller: Identified }
const tenantOf = ({ env, caller }: FromOperator) => tenantObject(env, caller.directory.tenant)

const shown = ({ env, caller }: FromOperator, record: IssuerRecord): Issuer => ({
  ...record,
  audiences: audiencesFor(identityOf(env).publicUrl, caller.directory.tenant, record),
})
