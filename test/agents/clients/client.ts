// Other people's MCP clients, as an agent's host uses them: each asks for a tool and waits for the
// text that the model reads.

import { createMCPClient } from '@ai-sdk/mcp'
import {
  Client as SecondClient,
  StreamableHTTPClientTransport as SecondTransport,
} from '@modelcontextprotocol/client'
import { createTaskSessionFromClient, resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client'
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as FirstTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpClient } from '../../support/http/mcp-client.ts'

export type Args = Readonly<Record<string, string>>
export type Place = {
  readonly url: URL
  readonly key: string
  /** How long the edge holds a request, in seconds, if not its default. */
  readonly wait?: number
}
export type OpenClient = {
  /** Resolves with the text that the model reads. Rejects when the host gives up. */
  readonly ask: (tool: string, args: Args, giveUp?: AbortSignal) => Promise<string>
  /** Requests that it has sent, other than those that connect and list. */
  readonly asked: () => number
  readonly close: () => Promise<unknown>
}
export type ClientKind = {
  readonly name: string
  readonly open: (place: Place) => Promise<OpenClient>
  /** The states of its calls after it gave up once, asked again, and was approved. */
  readonly afterGivingUp: readonly string[]
}

const timeout = 50_000
const INFO = { name: 'a host', version: '1' }

const headersOf = ({ key, wait }: Place): Record<string, string> => ({
  authorization: `Bearer ${key}`,
  ...(wait === undefined ? {} : { prefer: `wait=${wait}` }),
})
const textIn = (result: unknown): string => {
  const { content } = result as { content: { text?: string }[] } // each client has checked it against its schema
  return content.map(({ text = '' }) => text).join('\n')
}

/** A `fetch` that counts calls of tools and reads of tasks. */
function counting(): { readonly fetch: typeof fetch; readonly count: () => number } {
  let count = 0
  return {
    count: () => count,
    fetch: (input, init) => {
      if (/"method":"(?:tools\/call|tasks\/get)"/.test(String(init?.body))) count += 1
      return fetch(input, init)
    },
  }
}

/** Revision 2025-11-25: the edge holds the request and reports progress. */
const firstSdk: ClientKind = {
  name: 'SDK 1.32, held',
  // This client cancels its request when it gives up, so the second one is another call.
  afterGivingUp: ['cancelled', 'succeeded'],
  open: async (place) => {
    const requests = counting()
    let reports = 0
    const client = new FirstClient(INFO)
    const options = { requestInit: { headers: headersOf(place) }, fetch: requests.fetch }
    await client.connect(new FirstTransport(place.url, options) as never) // its optional properties differ from the interface's
    return {
      ask: async (name, args, signal) =>
        textIn(
          await client.callTool({ name, arguments: args }, undefined, {
            timeout,
            ...(signal && { signal }),
            onprogress: () => {
              reports += 1
            },
          }),
        ),
      asked: () => requests.count() + reports,
      close: () => client.close(),
    }
  },
}

/** The same, with a short hold: the model gets a pending result and fetches the call's own. */
const firstSdkPending: ClientKind = {
  name: 'SDK 1.32, pending result',
  afterGivingUp: ['cancelled', 'succeeded'],
  open: async (place) => {
    const inner = await firstSdk.open({ wait: 1, ...place })
    return {
      ...inner,
      ask: async (tool, args, giveUp) => {
        const first = await inner.ask(tool, args, giveUp)
        const call = /^PENDING: not done yet. Call (call_\S+) /.exec(first)?.[1]
        return call === undefined ? first : fetchResult(inner, call)
      },
    }
  },
}

/** As the pending result says. */
async function fetchResult({ ask }: Pick<OpenClient, 'ask'>, call: string): Promise<string> {
  const text = await ask('countersign_result', { call })
  return text.startsWith('PENDING') ? fetchResult({ ask }, call) : text
}

/** Revision 2026-07-28: `requestState` is answered by the client itself, up to ten times. */
const secondSdk: ClientKind = {
  name: 'client 2.4',
  afterGivingUp: ['succeeded'],
  open: async (place) => {
    const requests = counting()
    const client = new SecondClient(INFO, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    const options = { requestInit: { headers: headersOf(place) }, fetch: requests.fetch }
    await client.connect(new SecondTransport(place.url, options))
    return {
      ask: async (name, args, signal) =>
        textIn(await client.callTool({ name, arguments: args }, { timeout, ...(signal && { signal }) })),
      asked: requests.count,
      close: () => client.close(),
    }
  },
}

const aiSdk: ClientKind = {
  name: '@ai-sdk/mcp',
  afterGivingUp: ['succeeded'],
  open: async (place) => {
    const requests = counting()
    const client = await createMCPClient({
      transport: { type: 'http', url: place.url.href, headers: headersOf(place), fetch: requests.fetch },
    })
    const tools = await client.tools()
    return {
      ask: async (name, args, signal) => {
        const options = { toolCallId: 'a', messages: [], context: {}, ...(signal && { abortSignal: signal }) }
        return textIn(await tools[name]?.execute?.(args, options))
      },
      asked: requests.count,
      close: () => client.close(),
    }
  },
}

/** The Tasks extension: the call becomes a task that the client reads until it has ended. */
const tasks: ClientKind = {
  name: 'ext-tasks',
  afterGivingUp: ['succeeded'],
  open: async (place) => {
    const requests = counting()
    const client = new SecondClient(INFO, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    const options = { requestInit: { headers: headersOf(place) }, fetch: requests.fetch }
    await client.connect(new SecondTransport(place.url, options))
    const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} } }
    const wire = new McpClient(place.url.origin, place.key, 'modern', capabilities)
    let sent = 0
    const session = createTaskSessionFromClient(client, {
      endpointId: 'the-edge',
      v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo: INFO, clientCapabilities: {} },
      rawDispatch: async (request) => {
        const { method, params } = request as { method: string; params: Record<string, unknown> } // the session's own
        sent += 1
        const wish = place.wait === undefined ? {} : { wait: place.wait }
        const { result, error } = await (await wire.send(method, params, wish)).answer()
        return error === undefined
          ? { kind: 'result', result: result as never } // JSON
          : { kind: 'error', error: error as never }
      },
    })
    return {
      ask: async (name, args, signal) => {
        const execution = await session.callTool(name, { ...args })
        const { outcome } = await execution.settle({ ...(signal && { signal }) })
        return textIn(resultFromTaskOutcome(outcome))
      },
      asked: () => sent,
      close: async () => {
        await session.close()
        await client.close()
      },
    }
  },
}

export const CLIENTS: readonly ClientKind[] = [firstSdk, firstSdkPending, secondSdk, aiSdk, tasks]
