// The MCP endpoint: JSON-RPC in both directions, described by its own specification.

import { z } from 'zod'
import type { Code } from '../failures.ts'
import { Bytes, routes } from './route.ts'

const shared = {
  method: 'POST',
  callers: ['agent'],
  action: 'tool.list', // each method asks for more, and each call is decided
  body: Bytes,
  raw: true,
  refusals: 'json-rpc',
  status: 200,
  result: z.unknown(),
  failures: ['foreign_origin', 'not_acceptable'] as readonly Code[],
} as const

export const MCP = routes({
  mcp: {
    ...shared,
    path: '/mcp',
    summary:
      'Model Context Protocol, revisions 2026-07-28, 2025-11-25, 2025-06-18 and 2025-03-26: one JSON-RPC message in, a JSON-RPC message or an event stream out',
  },
  mcpInSession: {
    ...shared,
    path: '/mcp/s/{session}',
    params: z.strictObject({ session: z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/) }),
    summary: 'The same for clients that can’t set headers: the path names the session',
  },
})
