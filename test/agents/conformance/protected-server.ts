// An MCP server with the tools that the conformance suite calls, to be protected by the edge. Both
// official SDKs serve it: the second one the stateless revision, the first one those with
// `initialize`. The suite's own example server is in no package.

import type { RequestListener } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { Server as FirstServer } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  ListRootsResultSchema,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { createMcpHandler, inputRequired, Server as SecondServer } from '@modelcontextprotocol/server'
import { LoopbackServer } from './loopback-server.ts'
import { schemaWith } from './schema.ts'

type Args = Readonly<Record<string, unknown>>
type Schema = { readonly type: 'object'; readonly [keyword: string]: unknown }
/** The functions that a running tool can use. */
type Running = {
  readonly report: (progress: number) => Promise<void>
  readonly log: (text: string) => Promise<void>
}
type Tool = {
  readonly inputSchema: Schema
  readonly run: (args: Args, running: Running) => CallToolResult | Promise<CallToolResult>
}
/** Thrown by tools that want something from the client. */
class WantsInput extends Error {}

const NOTHING: Schema = { type: 'object', properties: {} }
const strings = (...names: string[]): Schema => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  required: names,
})
const text = (words: string): CallToolResult => ({ content: [{ type: 'text', text: words }] })
const data = Buffer.from('some bytes').toString('base64')
const image = { type: 'image', data, mimeType: 'image/png' } as const
const embedded = {
  type: 'resource',
  resource: { uri: 'test://embedded-resource', mimeType: 'text/plain', text: 'the text of a resource' },
} as const

const answers = (result: CallToolResult, inputSchema = NOTHING): Tool => ({ inputSchema, run: () => result })
const wants: Tool = {
  inputSchema: NOTHING,
  run: () => {
    throw new WantsInput('this tool asks the client')
  },
}

const TOOLS: Readonly<Record<string, Tool>> = {
  test_simple_text: answers(text('a simple text')),
  test_image_content: answers({ content: [image] }),
  test_audio_content: answers({ content: [{ type: 'audio', data, mimeType: 'audio/wav' }] }),
  test_embedded_resource: answers({ content: [embedded] }),
  test_multiple_content_types: answers({
    content: [{ type: 'text', text: 'several blocks' }, image, embedded],
  }),
  test_tool_with_logging: {
    inputSchema: NOTHING,
    run: async (_, { log }) => {
      for (const line of ['started', 'at work', 'done']) await log(line)
      return text('done')
    },
  },
  test_tool_with_progress: {
    inputSchema: NOTHING,
    run: async (_, { report }) => {
      for (const progress of [0, 50, 100]) {
        await report(progress)
        await pause(1_050) // the edge shows output at most once a second
      }
      return text('done')
    },
  },
  test_error_handling: answers({ ...text('the tool reports an error'), isError: true }),
  test_streaming_elicitation: answers(text('nobody was asked')),
  test_logging_tool: answers(text('nothing was logged')),
  test_trigger_tool_change: answers(text('the list of tools is as it was')),
  test_sampling: { ...wants, inputSchema: strings('prompt') },
  test_elicitation: { ...wants, inputSchema: strings('message') },
  test_elicitation_sep1034_defaults: wants,
  test_elicitation_sep1330_enums: wants,
  test_missing_capability: wants,
  test_input_required_result_elicitation: wants,
  test_input_required_result_sampling: wants,
  test_input_required_result_list_roots: wants,
  test_input_required_result_request_state: wants,
  test_input_required_result_multiple_inputs: wants,
  test_input_required_result_multi_round: wants,
  test_input_required_result_tampered_state: wants,
  test_input_required_result_capabilities: wants,
  test_tool_with_task: wants,
  confirm_delete: answers(text('nothing was deleted'), strings('filename')),
  multi_input: answers(text('nobody was asked')),
  greet: { inputSchema: strings('name'), run: ({ name }) => text(`Hello, ${String(name)}!`) },
  slow_compute: {
    inputSchema: {
      type: 'object',
      properties: { seconds: { type: 'integer' }, label: { type: 'string' } },
      required: ['seconds'],
    },
    run: async ({ seconds }) => {
      await pause(Number(seconds) * 1_000)
      return text('computed')
    },
  },
  failing_job: {
    inputSchema: NOTHING,
    run: async () => {
      await pause(500)
      return { ...text('the job fails'), isError: true }
    },
  },
  protocol_error_job: {
    inputSchema: NOTHING,
    run: async () => {
      await pause(500)
      throw new Error('the job breaks')
    },
  },
  json_schema_2020_12_tool: answers(text('accepted'), schemaWith({ $anchor: 'addressDef' })),
}

/** The names of its tools. */
export const PROTECTED_TOOLS: readonly string[] = Object.keys(TOOLS)

const INFO = { name: 'a protected server', version: '1' }
const CAPABILITIES = { capabilities: { tools: {}, logging: {} } }
const definitions = Object.entries(TOOLS).map(([name, { inputSchema }]) => ({
  name,
  description: `the tool ${name}`,
  inputSchema,
}))
const run = async (name: string, args: Args | undefined, running: Running): Promise<CallToolResult> => {
  const tool = TOOLS[name]
  if (tool === undefined) throw new Error(`there is no tool ${name}`)
  return tool.run(args ?? {}, running)
}

type Notify = (notification: { method: string; params: Record<string, unknown> }) => Promise<void>
const running = (progressToken: unknown, notify: Notify): Running => ({
  report: async (progress) => {
    if (progressToken !== undefined)
      await notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } })
  },
  log: (line) => notify({ method: 'notifications/message', params: { level: 'info', data: line } }),
})

function stateless(): RequestListener {
  const handler = createMcpHandler(
    () => {
      const server = new SecondServer(INFO, CAPABILITIES)
      server.setRequestHandler('tools/list', () => ({ tools: definitions }))
      server.setRequestHandler('tools/call', async ({ params }, { mcpReq }) => {
        try {
          return await run(
            params.name,
            params.arguments,
            running(mcpReq._meta?.progressToken, (notification) => mcpReq.notify(notification)),
          )
        } catch (error) {
          if (!(error instanceof WantsInput)) throw error
          const requestedSchema = { type: 'object', properties: { ok: { type: 'boolean' } } } as const
          return inputRequired({
            inputRequests: { ask: inputRequired.elicit({ message: error.message, requestedSchema }) },
          })
        }
      })
      return server
    },
    { legacy: 'reject' },
  )
  const serve = toNodeHandler(handler)
  return (request, response) => void serve(request, response)
}

function withInitialize(): RequestListener {
  return async (request, response) => {
    const server = new FirstServer(INFO, CAPABILITIES)
    server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: definitions }))
    server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
      const { _meta, sendNotification, sendRequest } = extra
      try {
        return await run(
          params.name,
          params.arguments,
          running(_meta?.progressToken, (notification) => sendNotification(notification as never)), // the SDK's union of notifications
        )
      } catch (error) {
        if (error instanceof WantsInput) await sendRequest({ method: 'roots/list' }, ListRootsResultSchema)
        throw error
      }
    })
    const transport = new StreamableHTTPServerTransport({})
    response.on('close', () => void server.close())
    await server.connect(transport as never) // its optional properties differ from the interface's
    await transport.handleRequest(request, response)
  }
}

/** `legacy`: of the revisions with `initialize`. */
export const openProtectedServer = (era: 'modern' | 'legacy'): Promise<LoopbackServer> =>
  LoopbackServer.open(era === 'modern' ? stateless() : withInitialize())
