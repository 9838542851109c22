// How a tool runs a program: the fixed part, and the parts that arguments fill in.

import { z } from 'zod'
import { PATTERNS } from '../ids.ts'
import { McpRequest } from './mcp-server.ts'
import { Argv, Environment, Stdin, Tier } from './plan.ts'

export const FromArgument = z.strictObject({ arg: z.string().min(1).max(64) })

export const ProcessExecutor = z.strictObject({
  kind: z.literal('process'),
  /** From least to most isolated. If policy refuses a plan, the planner tries the next tier. */
  tiers: z.array(Tier).min(1).max(2),
  /**
   * `{name}` fills exactly one element with that argument; `{...name}` fills one element for each
   * item of a list of strings.
   */
  argv: Argv,
  stdin: Stdin,
  env: Environment.optional(),
  cwd: FromArgument.optional(),
  /** An argument that may ask for less time than the tool's limit. */
  timeout_ms: FromArgument.optional(),
  /** A tier C sandbox profile that the workers' operator has added. */
  profile: z.string().regex(PATTERNS.name).optional(),
  /** The values that argv[0] may have, if an argument fills it. */
  allowed_executables: z.array(z.string().min(1).max(256)).max(256).optional(),
})

/** How a worker runs an MCP server that speaks over standard input and output. Always tier C. */
export const ServerProcess = z.strictObject({
  /** The program and its arguments, as they are: nothing in them is filled in. */
  command: Argv,
  env: Environment.optional(),
  profile: z.string().regex(PATTERNS.name).optional(),
})

/** A tool of such a server, or its list of tools. */
export const StdioExecutor = ServerProcess.extend({ kind: z.literal('stdio'), request: McpRequest })
export type StdioExecutor = z.infer<typeof StdioExecutor>
