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
} from '../wire/upstreams.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ name: UpstreamName })
const toolOf = named.extend({ tool: ToolName })
const Done = z.strictObject({ done: z.literal(true) })
/** An upstream with its tools. */
const Whole = Upstream.omit({ tools: true }).extend({
  tools: z.array(UpstreamTool),
  /** Listed tools that can have no name here, and why. */
  refused: z.array(z.strictObject({ tool: z.string(), why: z.string() })),
})

export const UPSTREAM_ROUTES = routes({
  listUpstreams: {
    method: 'GET',
    path: '/v1/upstreams',
    callers: ['operator'],
    action: 'upstream.read',
    summary: 'List the upstreams: remote MCP servers whose tools agents call through the edge',
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
    result: Whole,
    failures: ['not_found'],
  },
  refreshUpstream: {
    method: 'POST',
    path: '/v1/upstreams/{name}/refresh',
    callers: ['operator'],
    action: 'upstream.write',
    params: named,
    summary:
      'Read the tools of an upstream now and compare them with the accepted ones. A tool that differs is refused from then on, until an operator accepts it',
    body: z.strictObject({}),
    status: 200,
    result: Whole,
    failures: ['not_found', 'unavailable'],
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
      'Accept the definition of a tool that was looked at, and state what policies are to know about it; agents may call it from then on',
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
