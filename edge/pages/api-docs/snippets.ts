// Requests to copy: an operation’s example for curl, TypeScript and Python.

import type { Route } from '../../../shared/routes/route.ts'
import type { Example } from '../../http/openapi/examples.ts'

export type Snippet = { readonly title: string; readonly text: string }

type Request = {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: unknown
  readonly isRaw: boolean
  readonly hasKey: boolean
  /** The answer is text or bytes, not JSON. */
  readonly isPlain: boolean
}

export function snippetsOf(name: string, route: Route, example: Example, origin: string): Snippet[] {
  const request = requestOf(route, example, origin)
  const client = CLIENT[name]
  const ofClient =
    client === undefined
      ? []
      : [
          {
            title: 'TypeScript, @countersign/agent',
            text: `${typescriptClient(origin)}${client.typescript}\n`,
          },
          { title: 'Python, countersign-agent', text: `${pythonClient(origin)}${client.python}\n` },
        ]
  return [
    { title: 'curl', text: curl(request) },
    ...ofClient,
    { title: 'TypeScript', text: typescript(request) },
    { title: 'Python', text: python(request) },
  ]
}

function requestOf(route: Route, { parameters = {}, request }: Example, origin: string): Request {
  const { method, path, params, query, body, raw, reads = [], callers, media } = route
  const value = (name: string): string => encodeURIComponent(String(parameters[name] ?? name))
  const search = Object.keys(query?.shape ?? {}).filter((name) => name in parameters)
  const filled = params === undefined ? path : path.replace(/\{(\w+)\}/g, (_, name: string) => value(name))
  return {
    method,
    url: `${origin}${filled}${search.length === 0 ? '' : `?${search.map((name) => `${name}=${value(name)}`).join('&')}`}`,
    headers: {
      ...(body === undefined
        ? {}
        : { 'content-type': raw ? 'application/octet-stream' : 'application/json' }),
      ...(reads.includes('idempotency-key') ? { 'idempotency-key': 'order-4711' } : {}),
      ...(reads.includes('prefer') ? { prefer: 'wait=30' } : {}),
    },
    body: request,
    isRaw: raw === true,
    hasKey: !callers.includes('anyone'),
    isPlain: media !== undefined && !media.endsWith('json'),
  }
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

function curl({ method, url, headers, body, isRaw, hasKey, isPlain }: Request): string {
  const lines = [
    `curl -sS${isPlain ? 'N' : ''}${method === 'GET' ? '' : ` -X ${method}`} ${quoted(url)}`,
    ...(hasKey ? ['-H "authorization: Bearer $COUNTERSIGN_KEY"'] : []),
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    ...(isRaw ? ['--data-binary @FILE'] : body === undefined ? [] : [`-d ${quoted(JSON.stringify(body))}`]),
  ]
  return `${lines.join(' \\\n  ')}\n`
}

const indented = (text: string, by: string): string => text.replaceAll('\n', `\n${by}`)

function typescript({ method, url, headers, body, isRaw, hasKey, isPlain }: Request): string {
  const pairs = [
    ...(hasKey ? ["authorization: 'Bearer ' + process.env.COUNTERSIGN_KEY"] : []),
    ...Object.entries(headers).map(
      ([name, value]) => `${/^\w+$/.test(name) ? name : `'${name}'`}: '${value}'`,
    ),
  ]
  const options = [
    ...(method === 'GET' ? [] : [`method: '${method}',`]),
    ...(pairs.length === 0 ? [] : [`headers: {\n    ${pairs.join(',\n    ')},\n  },`]),
    ...(isRaw
      ? ["body: await readFile('FILE'),"]
      : body === undefined
        ? []
        : [`body: JSON.stringify(${indented(JSON.stringify(body, null, 2), '  ')}),`]),
  ]
  const argument = options.length === 0 ? '' : `, {\n  ${options.join('\n  ')}\n}`
  const lines = [
    ...(isRaw ? ["import { readFile } from 'node:fs/promises'\n"] : []),
    `const answer = await fetch('${url}'${argument})`,
    'if (!answer.ok) throw new Error((await answer.json()).detail)',
    `console.log(await answer.${isPlain ? 'text' : 'json'}())`,
  ]
  return `${lines.join('\n')}\n`
}

function python({ method, url, headers, body, isRaw, hasKey, isPlain }: Request): string {
  const pairs = [
    ...(hasKey ? [`"authorization": f"Bearer {os.environ['COUNTERSIGN_KEY']}"`] : []),
    ...Object.entries(headers).map(([name, value]) => `"${name}": "${value}"`),
  ]
  const options = [
    `"${url}"`,
    ...(method === 'GET' ? [] : [`method="${method}"`]),
    ...(pairs.length === 0 ? [] : [`headers={\n        ${pairs.join(',\n        ')},\n    }`]),
    ...(isRaw
      ? ['data=open("FILE", "rb").read()']
      : body === undefined
        ? []
        : [`data=json.dumps(${indented(pythonLiteral(body, ''), '    ')}).encode()`]),
  ]
  const modules = [
    ...(isPlain && body === undefined ? [] : ['json']),
    ...(hasKey ? ['os'] : []),
    'urllib.request',
  ]
  return `import ${modules.join(', ')}

request = urllib.request.Request(
    ${options.join(',\n    ')},
)
with urllib.request.urlopen(request) as answer:
    print(${isPlain ? 'answer.read()' : 'json.load(answer)'})
`
}

function pythonLiteral(value: unknown, indent: string): string {
  if (value === null || value === undefined) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  const inner = `${indent}    `
  const parts = Array.isArray(value)
    ? value.map((item) => pythonLiteral(item, inner))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonLiteral(item, inner)}`)
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  return parts.length === 0
    ? `${open}${close}`
    : `${open}\n${inner}${parts.join(`,\n${inner}`)},\n${indent}${close}`
}

// ── The clients for agents ──

const typescriptClient = (origin: string): string => `import { Countersign } from '@countersign/agent'

const countersign = new Countersign({ url: '${origin}', key: process.env.COUNTERSIGN_KEY ?? '' })
`
const pythonClient = (origin: string): string => `import os
from countersign_agent import Countersign

countersign = Countersign("${origin}", os.environ["COUNTERSIGN_KEY"])
`

type ClientCode = { readonly typescript: string; readonly python: string }

/** `call` is a call as an earlier answer returned it. */
const CLIENT: Readonly<Record<string, ClientCode>> = {
  proposeCallInNewRun: {
    typescript: "const call = await countersign.call('send_report', { to: 'ops@example.com' })",
    python: 'call = countersign.call("send_report", {"to": "ops@example.com"})',
  },
  proposeCall: {
    typescript:
      "const run = await countersign.createRun()\nconst call = await countersign.propose('count_words', {}, { run })",
    python: 'run = countersign.create_run()\ncall = countersign.propose("count_words", {}, run=run)',
  },
  readCallById: {
    typescript: 'const ended = await countersign.wait(call)',
    python: 'ended = countersign.wait(call)',
  },
  followCall: {
    typescript: 'for await (const { event, data } of countersign.stream(call)) console.log(event, data)',
    python: 'for event, data, _ in countersign.stream(call):\n    print(event, data)',
  },
  cancelCall: { typescript: 'await countersign.cancel(call)', python: 'countersign.cancel(call)' },
  listTools: { typescript: 'const tools = await countersign.tools()', python: 'tools = countersign.tools()' },
  decide: {
    typescript: "const { decision } = await countersign.decide('send_report', { to: 'ops@example.com' })",
    python: 'decision = countersign.decide("send_report", {"to": "ops@example.com"})["decision"]',
  },
  readAttestation: {
    typescript: 'const bundle = await countersign.attestation(call)',
    python: 'bundle = countersign.attestation(call)',
  },
}
