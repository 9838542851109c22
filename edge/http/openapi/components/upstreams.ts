// Protect mode: upstreams, their tools, and how the edge calls them.

import { UpstreamAuth, UpstreamExecutor, UpstreamLimits, UpstreamPlan } from '../../../../shared/plan/plan.ts'
import { UPSTREAM_ROUTES } from '../../../../shared/routes/upstreams.ts'
import {
  Upstream,
  UpstreamAcceptance,
  UpstreamDiff,
  UpstreamName,
  UpstreamSpec,
  UpstreamTool,
  UpstreamToolState,
  UpstreamToolTerms,
} from '../../../../shared/wire/upstreams.ts'
import { OUTPUT } from './calls.ts'
import { base, type Component, object, outlined, plain } from './component.ts'

const SPEC = {
  kind: 'A server that speaks MCP over Streamable HTTP.',
  url: 'Its address. With a new one, each tool has to be accepted again.',
  auth: 'The secret that authenticates the edge. Its `tools` must list `upstream:NAME`.',
  look_ms: 'Before a call, the list of tools is compared again if that was this long ago.',
  limits: 'The most that one call may use.',
}

const UPSTREAM = {
  ...SPEC,
  name: '',
  put_by: '',
  put_at_ms: 'When it was stored.',
  looked_at_ms: 'When its tools were last read.',
  era: 'The generation of the protocol that it spoke then.',
  fault: 'Why the last look failed; null if it succeeded.',
}

const TERMS = {
  capabilities: 'What its calls are able to do.',
  groups: 'Groups that policies can name.',
  sensitive: 'Whether its calls need an approval.',
  idempotent: 'A hint for clients. No call whose end is unknown is repeated.',
  approval_ttl_s: 'How long operators have to answer.',
  result:
    '`mcp`: the output of a call is the server’s result as JSON, with images, audio and resources. Otherwise its text.',
}

const EXECUTOR = {
  kind: 'The edge calls it.',
  upstream: 'The name of the upstream.',
  url: 'The address of its server.',
  tool: 'The name that the server uses.',
  definition: 'The digest of the accepted definition.',
  mirrored: 'Arguments that the server wants repeated in headers `Mcp-Param-…`.',
  auth: '',
}

export const UPSTREAMS: Readonly<Record<string, Component>> = {
  UpstreamName: plain(UpstreamName, 'The name of an upstream, with which the names of its tools begin.'),
  UpstreamAuth: plain(
    UpstreamAuth,
    'How the edge authenticates: a secret in a header, or the client credentials of OAuth 2.1.',
  ),
  UpstreamLimits: object(UpstreamLimits, 'The most that one call of an upstream may use.', {
    timeout_ms: 'Time until the answer is complete.',
    output_bytes: 'Bytes of output that are kept.',
    net_bytes: 'Bytes of its requests and answers.',
    net_connections: 'HTTP requests.',
  }),
  UpstreamExecutor: outlined(
    object(UpstreamExecutor, 'A tool of a remote MCP server, as it was accepted.', {
      ...EXECUTOR,
    }),
    'mirrored',
  ),
  PlannedUpstreamTool: outlined(
    object(UpstreamPlan.shape.executor, 'The tool of an upstream that a plan calls.', {
      ...EXECUTOR,
      output: OUTPUT,
    }),
    'mirrored',
  ),
  UpstreamPlan: object(UpstreamPlan, 'A plan of tier M: the edge calls a server, which nothing isolates.', {
    tier: 'Always `M`.',
    executor: '',
    egress: 'The host of the server.',
    secrets: 'Always empty.',
    credentials: 'Secrets that the edge adds to its requests.',
    limits: '',
  }),
  UpstreamState: base(
    object(Upstream.omit({ tools: true }), 'An upstream, and the last look at its tools.', UPSTREAM),
  ),
  UpstreamSpec: object(UpstreamSpec, 'An upstream as an operator registers it.', SPEC),
  Upstream: object(Upstream, 'A remote MCP server whose tools agents call through the edge.', {
    ...UPSTREAM,
    tools: 'The number of tools in each state.',
  }),
  UpstreamWithTools: object(UPSTREAM_ROUTES.readUpstream.result, 'An upstream with its tools.', {
    ...UPSTREAM,
    tools: 'Its tools.',
    refused: 'Listed tools that can have no name here, and why.',
  }),
  UpstreamToolState: plain(
    UpstreamToolState,
    '`new`: never accepted. `accepted`: agents may call it. `changed`: the server shows a definition other than the accepted one, so calls are refused. `gone`: accepted, but no longer listed. `refused`: it can’t be accepted.',
  ),
  UpstreamToolTerms: object(UpstreamToolTerms, 'What the operator states about a tool.', TERMS),
  UpstreamAcceptance: object(UpstreamAcceptance, 'The acceptance of a definition.', {
    ...TERMS,
    definition: 'The digest that the operator has looked at. With another one the request is refused.',
  }),
  UpstreamTool: object(UpstreamTool, 'A tool of an upstream.', {
    name: '',
    upstream_name: 'The server’s name for it, with invisible characters escaped.',
    state: '',
    pinned: 'The digest of the accepted definition.',
    seen: 'The digest of the definition that the server shows now.',
    description: 'The present description, with invisible characters escaped.',
    faults: 'Why it can’t be accepted.',
    terms: 'What the operator stated.',
    accepted_by: 'The operator who accepted it.',
    accepted_at_ms: 'When it was accepted.',
  }),
  UpstreamDiff: outlined(
    object(UpstreamDiff, 'Both definitions of a tool, and where they differ.', {
      tool: '',
      pinned: 'The accepted definition as JSON text.',
      seen: 'The definition that the server shows now, as JSON text.',
      changes: 'The places that differ.',
    }),
    'changes',
  ),
}
