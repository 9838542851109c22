// Protect mode: upstreams, their tools, and how the edge calls them.

import { StdioExecutor } from '../../../../shared/plan/executor.ts'
import { McpRequest } from '../../../../shared/plan/mcp-server.ts'
import { UpstreamAuth, UpstreamExecutor, UpstreamLimits, UpstreamPlan } from '../../../../shared/plan/plan.ts'
import {
  HttpUpstream,
  StdioUpstream,
  Upstream,
  UpstreamAcceptance,
  UpstreamDiff,
  UpstreamName,
  UpstreamSpec,
  UpstreamTool,
  UpstreamToolState,
  UpstreamToolTerms,
  UpstreamWithTools,
} from '../../../../shared/wire/upstreams.ts'
import { OUTPUT } from './calls.ts'
import { type Component, object, opaque, outlined, plain } from './component.ts'

const HTTP = {
  kind: 'A server that speaks MCP over Streamable HTTP.',
  url: 'Its address. With a new one, each tool has to be accepted again.',
  auth: 'The secret that authenticates the edge. Its `tools` must list `upstream:NAME`.',
  look_ms: 'Before a call, the list of tools is compared again if that was this long ago.',
  limits: 'The most that one call may use.',
}

const STDIO = {
  kind: 'A server that a worker starts in tier C and speaks with over standard input and output.',
  command: 'Its program and arguments. With others, each tool has to be accepted again.',
  env: 'Put no secrets there.',
  profile: 'A sandbox profile of the workers’ operator.',
  hosts: 'Reachable ones.',
  secrets: 'Secrets that it reads as files; their `tools` list `upstream:NAME`.',
  credentials: '',
  workspace: 'Whether it works in a folder of the call (the default) or of the run.',
  pool: 'The pool whose workers list its tools.',
  limits: 'The most that one call may use.',
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
  UpstreamExecutor: object(UpstreamExecutor, 'A tool of a remote MCP server, as it was accepted.', {
    ...EXECUTOR,
  }),
  PlannedUpstreamTool: object(UpstreamPlan.shape.executor, 'The tool of an upstream that a plan calls.', {
    ...EXECUTOR,
    output: OUTPUT,
  }),
  McpRequest: opaque(
    McpRequest,
    'What a worker asks of an MCP server: `method`, `upstream`, and, for a call, `tool` and `definition`.',
  ),
  StdioExecutor: object(StdioExecutor, 'A tool of an MCP server that a worker starts.', {
    kind: 'Always tier C.',
    command: '',
    env: '',
    profile: 'A sandbox profile of the workers.',
    request: '',
  }),
  UpstreamPlan: object(UpstreamPlan, 'A plan of tier M: the edge calls a server, which nothing isolates.', {
    tier: 'Always `M`.',
    executor: '',
    egress: 'The host of the server.',
    secrets: 'Always empty.',
    credentials: 'Secrets that the edge adds to its requests.',
    limits: '',
  }),
  HttpUpstream: outlined(object(HttpUpstream, 'A remote MCP server, which the edge calls.', HTTP), 'limits'),
  StdioUpstream: outlined(
    object(StdioUpstream, 'An MCP server that a worker starts for each call.', STDIO),
    'limits',
  ),
  UpstreamSpec: plain(UpstreamSpec, 'An upstream as an operator registers it.'),
  Upstream: opaque(
    Upstream,
    'An `UpstreamSpec` with `name`, `put_by`, `put_at_ms`, the last look (`looked_at_ms`, `era`, `fault`), and the number of `tools` in each state.',
  ),
  UpstreamWithTools: opaque(
    UpstreamWithTools,
    'An `Upstream` whose `tools` are a list of `UpstreamTool`; `refused`: listed tools that can have no name here, and why.',
  ),
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
    description: 'The current description, with invisible characters escaped.',
    faults: 'Why it can’t be accepted.',
    terms: 'What the operator stated.',
    accepted_by: 'The operator who accepted it.',
    accepted_at_ms: 'When it was accepted.',
  }),
  UpstreamDiff: object(UpstreamDiff, 'Both definitions of a tool, and where they differ.', {
    tool: '',
    pinned: 'The accepted definition as JSON text.',
    seen: 'The definition that the server shows now, as JSON text.',
    changes: 'The places that differ.',
  }),
}
