// Tools of an MCP server that a worker starts in tier C: their contract, their plan, and the tool
// that lists the others. Pure.

import { digestOf } from '../../shared/bytes/json.ts'
import { RESERVED_TOOL_PREFIX } from '../../shared/ids.ts'
import { DEFAULT_LIMITS, MAX_LIMITS } from '../../shared/limits.ts'
import type { StdioExecutor } from '../../shared/plan/executor.ts'
import type { McpRequest } from '../../shared/plan/mcp-server.ts'
import type { Budget, Limits, ProcessPlan } from '../../shared/plan/plan.ts'
import { type Tool, type ToolSpec, upstreamOf } from '../../shared/wire/tools.ts'
import type { StdioUpstream } from '../../shared/wire/upstreams.ts'
import { outputSchemaOf } from './mcp-result.ts'

export type ServerContract = Pick<
  ToolSpec,
  'executor' | 'egress' | 'workspace' | 'limits' | 'secrets' | 'credentials'
>

/** How a worker runs the server for one request, in the members of a tool's contract. */
export function serverContract(
  { command, env, profile, hosts = [], secrets, credentials, workspace = 'call', limits = {} }: StdioUpstream,
  request: McpRequest,
): ServerContract {
  return {
    executor: {
      kind: 'stdio',
      command,
      ...(env === undefined ? {} : { env }),
      ...(profile === undefined ? {} : { profile }),
      request,
    },
    egress: { mode: 'strict', hosts },
    ...(secrets === undefined ? {} : { secrets }),
    ...(credentials === undefined ? {} : { credentials }),
    workspace,
    limits,
  }
}

/** The agent chooses nothing in the plan: command and reach are those of the upstream. */
export function serverPlan(
  tool: ToolSpec,
  { command, env = {}, profile, request }: StdioExecutor,
  { execution_timeout_ms }: Budget,
): ProcessPlan {
  const { secrets = [], credentials, egress, workspace, limits } = tool
  const output = outputSchemaOf(tool)
  const { fuel: _, ...own } = limits
  const given = Object.entries(own).filter(([, value]) => value !== undefined)
  const bounds: Limits = { ...DEFAULT_LIMITS, ...(Object.fromEntries(given) as Partial<Limits>) } // only defined members
  return {
    tier: 'C',
    executor: {
      kind: 'process',
      argv: command,
      stdin: 'none',
      env,
      cwd: '',
      ...(output === undefined ? {} : { output }),
      mcp: request,
    },
    egress: { mode: 'strict', hosts: egress.hosts },
    ...(profile === undefined ? {} : { profile }),
    secrets,
    ...(credentials === undefined ? {} : { credentials }),
    workspace,
    limits: { ...bounds, timeout_ms: Math.min(bounds.timeout_ms, execution_timeout_ms) },
  }
}

/**
 * A tool with the name by which its secrets know it: those of an upstream list `upstream:NAME`,
 * because they are for its server and not for one of its tools.
 */
export function secretNeedsOf(tool: Tool): Pick<Tool, 'name' | 'secrets' | 'credentials'> {
  const { name, secrets, credentials } = tool
  const upstream = tool.executor.kind === 'stdio' ? upstreamOf(tool) : undefined
  return { name: upstream === undefined ? name : `upstream:${upstream}`, secrets, credentials }
}

/** The tool that lists the tools of an upstream, for the edge's own calls; no agent can name it. */
export function listingTool(upstream: string, revision: number, spec: StdioUpstream): Tool {
  const name = `${RESERVED_TOOL_PREFIX}list_${upstream}`
  const contract: ToolSpec = {
    description: `Starts the MCP server of the upstream ${upstream} and lists its tools`,
    input_schema: { type: 'object', properties: {}, additionalProperties: false },
    capabilities: [],
    sensitive: false,
    ...serverContract(spec, { method: 'tools/list', upstream }),
    workspace: 'call',
    limits: { ...spec.limits, output_bytes: MAX_LIMITS.output_bytes },
  }
  return { name, version: revision, digest: digestOf({ name, spec: contract }), ...contract }
}
