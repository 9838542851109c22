// Routes of protect mode: upstreams, their tools, and what operators accept of them.

import { z } from 'zod'
import { JournalEntry } from '../evidence/journal.ts'
import { ToolName } from '../fields.ts'
import {
  Upstream,
  UpstreamAcceptance,
  UpstreamDiff,
  UpstreamName,
  UpstreamSpec,
  UpstreamTool,
  UpstreamWithTools,
} from '../wire/upstreams.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ name: UpstreamName })
const toolOf = named.extend({ tool: ToolName })
const Done = z.strictObject({ done: z.literal(true) })

export const UPSTREAM_ROUTES = routes({
  listUpstreams: {
    method: 'GET',
    path: '/v1/upstreams',
    callers: ['operator'],
    action: 'upstream.read',
    summary: 'List the upstreams: MCP servers whose tools agents call through Countersign',
    status: 200,
    result: list(Upstream),
    failures: [],
  },
  putUpstream: {
    method: 'PUT',
    path: '/v1/upstreams/{name}',
    callers: ['operator'],
    action: 'upstream.write',
    params: named,
    summary:
      'Register or change an upstream. Nothing is requested from it yet; `refresh` reads its tools, and each has to be accepted',
    body: UpstreamSpec,
    status: 200,
    result: Upstream,
    failures: ['limit_reached', 'conflict', 'invalid_request'],
  },
  readUpstream: {
    method: 'GET',
    path: '/v1/upstreams/{name}',
    callers: ['operator'],
    action: 'upstream.read',
    params: named,
    summary: 'Read an upstream and its tools with their states',
    status: 200,
    result: UpstreamWithTools,
    failures: ['not_found'],
  },
  refreshUpstream: {
    method: 'POST',
    path: '/v1/upstreams/{name}/refresh',
    callers: ['operator'],
    action: 'upstream.write',
    params: named,
    summary:
      'Read the tools of an upstream now and compare them with the accepted ones. A tool that differs is refused from then on, until an operator accepts it. A server that a worker starts is read by a call of its own, which policy decides and the log records',
    body: z.strictObject({}),
    status: 200,
    result: UpstreamWithTools,
    failures: ['not_found', 'unavailable', 'conflict'],
  },
  removeUpstream: {
    method: 'DELETE',
    path: '/v1/upstreams/{name}',
    callers: ['operator'],
    action: 'upstream.write',
    params: named,
    summary: 'Remove an upstream with its tools; their versions stay on record',
    status: 200,
    result: Done,
    failures: ['not_found', 'tool_breaks_policies'],
  },
  readUpstreamJournal: {
    method: 'GET',
    path: '/v1/upstream-journal',
    callers: ['operator'],
    action: 'upstream.read',
    query: z.strictObject({ after: number(1e9).default(0) }),
    summary:
      'List the hash-chained events of upstreams, one page at a time: which definition of a tool was accepted or withdrawn by whom, and which was quarantined. Each is a leaf of the tenant’s log',
    status: 200,
    result: list(JournalEntry),
    failures: [],
  },
  readUpstreamTool: {
    method: 'GET',
    path: '/v1/upstreams/{name}/tools/{tool}',
    callers: ['operator'],
    action: 'upstream.read',
    params: toolOf,
    summary:
      'Read the accepted definition of a tool, the one that the server shows now, and where they differ, with invisible characters escaped',
    status: 200,
    result: UpstreamDiff,
    failures: ['not_found'],
  },
  acceptUpstreamTool: {
    method: 'POST',
    path: '/v1/upstreams/{name}/tools/{tool}/accept',
    callers: ['operator'],
    action: 'upstream.accept',
    params: toolOf,
    summary:
      'Accept the definition of a tool that was looked at, and state what policies should know about it; agents may call it from then on',
    body: UpstreamAcceptance,
    status: 200,
    result: UpstreamTool,
    failures: ['not_found', 'conflict', 'invalid_schema', 'limit_reached', 'tool_breaks_policies'],
  },
  withdrawUpstreamTool: {
    method: 'DELETE',
    path: '/v1/upstreams/{name}/tools/{tool}',
    callers: ['operator'],
    action: 'upstream.accept',
    params: toolOf,
    summary: 'Withdraw the acceptance of a tool, so that agents can’t call it',
    status: 200,
    result: UpstreamTool,
    failures: ['not_found', 'tool_breaks_policies'],
  },
})
