// Routes for issuers of tokens, whose JSON Web Tokens authenticate agents; and the metadata with
// which clients find them (RFC 9728).

import { z } from 'zod'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Issuer, IssuerSpec, TokenVerdict } from '../wire/issuers.ts'
import { list, routes } from './route.ts'

const named = z.strictObject({ name: Name })
const tenantQuery = z.strictObject({ tenant: z.string().max(32).default('default') })
const ProtectedResource = z.strictObject({
  resource: z.string(),
  authorization_servers: z.array(z.string()),
  bearer_methods_supported: z.array(z.literal('header')),
  resource_name: z.string(),
})

export const ISSUERS = routes({
  listIssuers: {
    method: 'GET',
    path: '/v1/issuers',
    callers: ['operator'],
    action: 'issuer.read',
    summary: 'List the issuers whose tokens authenticate agents',
    status: 200,
    result: list(Issuer),
    failures: [],
  },
  readIssuer: {
    method: 'GET',
    path: '/v1/issuers/{name}',
    callers: ['operator'],
    action: 'issuer.read',
    params: named,
    summary: 'Read an issuer',
    status: 200,
    result: Issuer,
    failures: ['not_found'],
  },
  putIssuer: {
    method: 'PUT',
    path: '/v1/issuers/{name}',
    callers: ['operator'],
    action: 'issuer.write',
    params: named,
    summary: 'Trust an issuer, or change how: tokens that match a rule authenticate its agent from then on',
    body: IssuerSpec,
    status: 200,
    result: Issuer,
    failures: ['limit_reached', 'conflict'],
  },
  deleteIssuer: {
    method: 'DELETE',
    path: '/v1/issuers/{name}',
    callers: ['operator'],
    action: 'issuer.write',
    params: named,
    summary: 'Remove an issuer; its tokens are refused from then on',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
  testToken: {
    method: 'POST',
    path: '/v1/issuers/test',
    callers: ['operator'],
    action: 'issuer.read',
    summary: 'Test a token: which agent it authenticates, or why it is refused; nothing is recorded',
    body: z.strictObject({
      token: z
        .string()
        .min(1)
        .max(2 * LIMITS.token_bytes),
    }),
    status: 200,
    result: TokenVerdict,
    failures: ['unavailable'],
  },
  resourceMetadata: {
    method: 'GET',
    path: '/.well-known/oauth-protected-resource',
    callers: ['anyone'],
    action: null,
    summary: 'Read which issuers give tokens for this API (RFC 9728), if there are any',
    query: tenantQuery,
    status: 200,
    result: ProtectedResource,
    failures: ['not_found'],
  },
  mcpResourceMetadata: {
    method: 'GET',
    path: '/.well-known/oauth-protected-resource/mcp',
    callers: ['anyone'],
    action: null,
    summary: 'Read which issuers give tokens for the MCP endpoint (RFC 9728), if there are any',
    query: tenantQuery,
    status: 200,
    result: ProtectedResource,
    failures: ['not_found'],
  },
})
