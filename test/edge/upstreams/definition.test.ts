// Promise: the pin of a tool covers its whole definition and its server, and agents see of it only
// what an operator could see.

import { describe, expect, test } from 'vitest'
import { outputSchemaOf } from '../../../edge/tools/mcp-result.ts'
import { mirroredHeaders } from '../../../edge/upstreams/client.ts'
import { parseTools, publishedText, toolContract } from '../../../edge/upstreams/definition.ts'
import { changesBetween } from '../../../edge/upstreams/definition-diff.ts'
import type { Json } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { refusal, toolResult } from '../../../shared/mcp/tool-result.ts'
import { definitionDigest } from '../../../shared/plan/mcp-server.ts'

const SERVER = { name: 'docs', url: 'https://mcp.example.com/mcp' }
const TERMS = { capabilities: [], sensitive: true, idempotent: false }
const tool = (more: Record<string, Json> = {}): Record<string, Json> => ({
  name: 'search',
  description: 'finds pages',
  inputSchema: { type: 'object', properties: { q: { type: 'string' } } },
  ...more,
})
const contractOf = (json: Record<string, Json>) => {
  const [definition] = parseTools([json], SERVER).tools
  if (definition === undefined) throw new Error('the tool has no name')
  return toolContract({ name: SERVER.name, spec: { kind: 'http', url: SERVER.url } }, definition, TERMS)
}

describe('U01 pins', () => {
  const pinned = definitionDigest(SERVER, tool())
  test.each<[string, Record<string, Json>]>([
    ['title', { title: 'Search' }],
    ['description', { description: 'finds pages.' }],
    [
      'input schema',
      { inputSchema: { type: 'object', properties: { q: { type: 'string', description: 'x' } } } },
    ],
    ['output schema', { outputSchema: { type: 'object' } }],
    ['annotations', { annotations: { readOnlyHint: true } }],
    ['icons', { icons: [] }],
    ['metadata', { _meta: { a: 1 } }],
    ['any other member', { later: null }],
  ])('U01 the pin of a tool changes with its %s', (_, change) => {
    expect(definitionDigest(SERVER, tool(change))).not.toBe(pinned)
  })

  test('the pin of a tool changes with the name and the address of its server, and not with the order of members', () => {
    expect(definitionDigest({ ...SERVER, name: 'docs2' }, tool())).not.toBe(pinned)
    expect(definitionDigest({ ...SERVER, url: 'https://mcp.example.com/other' }, tool())).not.toBe(pinned)
    expect(definitionDigest(SERVER, Object.fromEntries(Object.entries(tool()).reverse()))).toBe(pinned)
    const started = definitionDigest({ name: 'docs', command: ['docs-mcp'] }, tool())
    expect(definitionDigest({ name: 'docs', command: ['docs-mcp', '--all'] }, tool())).not.toBe(started)
  })
})

test('U04 tools are named after their upstream in lower case, and tools that would share a name have none', () => {
  const { tools, refused } = parseTools(
    [tool({ name: 'Get.Page' }), tool({ name: 'a b' }), tool({ name: 'A_B' }), 7, {}],
    SERVER,
  )
  expect(tools.map(({ name, upstreamName }) => [name, upstreamName])).toEqual([['docs_get_page', 'Get.Page']])
  expect(refused.map(({ tool }) => tool)).toEqual(['', '', 'a b', 'A_B'])
})

test('U04 a tool is refused above `upstream_tool_chars` of its name and `upstream_definition_bytes` of its definition', () => {
  expect([LIMITS.upstream_tool_chars, LIMITS.upstream_definition_bytes]).toEqual([128, 131_072])
  const whyOf = (json: Record<string, Json>) => parseTools([json], SERVER).refused[0]?.why
  expect(whyOf(tool({ name: 'n'.repeat(129) }))).toMatch(/must have 1 to 128 characters/)
  expect(whyOf(tool({ name: 'n'.repeat(128) }))).toMatch(/is longer than 50 characters/)
  const room = 131_072 - Buffer.byteLength(JSON.stringify(tool({ title: '' })))
  expect(whyOf(tool({ title: 'x'.repeat(room) }))).toBeUndefined()
  expect(whyOf(tool({ title: 'x'.repeat(room + 1) }))).toMatch(/is larger than 131072 bytes/)
})

test('agents see a description without control, bidirectional, tag and zero-width characters, of at most 4 KiB', () => {
  expect(publishedText('a\u202Eb\u{E0041}c\u200Bd\u0007e\tf\u00A0g\nh')).toBe('abcde f g\nh')
  expect(LIMITS.upstream_description_chars).toBe(4_096)
  expect(Buffer.byteLength(publishedText('é'.repeat(5_000)))).toBe(4_096)
})

describe('the contract of a tool', () => {
  test('U03 the contract of a tool contains nothing that the server says about its own harmlessness', () => {
    const contract = contractOf(
      tool({ annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true } }),
    )
    expect(contract.ok && contract.value).toMatchObject({
      sensitive: true,
      idempotent: false,
      capabilities: [],
    })
    expect(JSON.stringify(contract)).not.toContain('Hint')
  })

  test('the contract of a tool leaves out headers, formats and anchors, keeps a property of that name, and lists the headers', () => {
    const inputSchema = {
      type: 'object',
      $anchor: 'arguments',
      properties: {
        'x-mcp-header': { type: 'string', format: 'uri' },
        region: { type: 'object', properties: { code: { type: 'string', 'x-mcp-header': 'Region' } } },
      },
    }
    const contract = contractOf(tool({ inputSchema }))
    if (!contract.ok) throw new Error(contract.error.join())
    expect(contract.value.input_schema).toEqual({
      type: 'object',
      properties: {
        'x-mcp-header': { type: 'string' },
        region: { type: 'object', properties: { code: { type: 'string' } } },
      },
    })
    const mirrored = [{ header: 'Region', path: ['region', 'code'] }]
    expect(contract.value.executor).toMatchObject({ mirrored })
    expect(mirroredHeaders({ mirrored }, { region: { code: 'eu' } })).toEqual({ 'mcp-param-region': 'eu' })
    expect(mirroredHeaders({ mirrored }, { region: null })).toEqual({})
  })

  test.each<[string, Json, string]>([
    [
      'a pattern',
      { type: 'object', properties: { q: { type: 'string', pattern: 'a' } } },
      'inputSchema/properties/q/pattern',
    ],
    ['no object', { type: 'array' }, 'inputSchema/type'],
    ['an invisible name', { type: 'object', properties: { 'a\u200B': {} } }, 'invisible characters'],
    [
      'a header that is not a token',
      { type: 'object', properties: { q: { type: 'string', 'x-mcp-header': 'a b' } } },
      'x-mcp-header',
    ],
    [
      'a header below a list',
      {
        type: 'object',
        properties: { q: { type: 'array', items: { type: 'string', 'x-mcp-header': 'A' } } },
      },
      'x-mcp-header',
    ],
    ['no schema', null, 'not an object'],
  ])('a schema with %s is refused, and the refusal says where it is', (_, inputSchema, where) => {
    const contract = contractOf(tool({ inputSchema }))
    expect(contract.ok ? 'accepted' : contract.error.join()).toContain(where)
  })
})

test('a difference names each place with both values, and shows invisible characters', () => {
  const is = tool({ description: 'finds pages\u200B', annotations: { a: 1 } })
  expect(changesBetween(tool(), is)).toEqual([
    { at: '/description', was: '"finds pages"', is: '"finds pages\\u{200b}"' },
    { at: '/annotations', was: '(nothing)', is: '{\n  "a": 1\n}' },
  ])
  const long = 'x'.repeat(5_000)
  const [change] = changesBetween(tool({ description: long }), tool({ description: `${long}!` }))
  expect(change?.is).toContain('x!"')
})

describe('a whole result', () => {
  const schemaWith = (output_schema?: Record<string, unknown>) =>
    outputSchemaOf({ result: 'mcp', ...(output_schema && { output_schema }) })
  const kept = (result: Record<string, Json>, schema?: Record<string, unknown>) => {
    const { outcome, output } = toolResult(schemaWith(schema), result, (value) => value)
    return [outcome.kind, output === '' ? null : JSON.parse(output)] as const
  }

  test('a whole result keeps of each block what the protocol defines for its type, and nothing that steers models', () => {
    const steering = { _meta: { x: 1 }, annotations: { audience: ['assistant'], priority: 1 } }
    const blocks = [
      { type: 'text', text: 'words' },
      { type: 'image', data: 'QUJD', mimeType: 'image/png' },
      { type: 'audio', data: 'QUJD', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'file:///a', name: 'a' },
    ]
    const resource = { uri: 'file:///a', mimeType: 'text/plain', text: 'inside' }
    const content = [
      ...blocks.map((block) => ({ ...block, ...steering })),
      { type: 'resource', resource: { ...resource, ...steering }, ...steering },
      { type: 'hologram', mimeType: 'x/y', data: 'QUJD' },
      'no block',
    ]
    expect(kept({ content, _meta: { x: 1 } })).toEqual([
      'returned',
      {
        content: [
          ...blocks,
          { type: 'resource', resource },
          { type: 'text', text: '[hologram x/y, 4 characters in base64, not passed on]' },
          { type: 'text', text: '' },
        ],
      },
    ])
  })

  test('if the members of a block have types other than the protocol says, only their size is passed on', () => {
    const odd = { toString: 5, valueOf: 5 }
    const words = (block: Json) => toolResult(undefined, { content: [block] }, (value) => value).output
    expect(words({ type: odd })).toBe('[unknown unknown, not passed on]')
    expect(words({ type: 'image', mimeType: odd, data: 'QUJD' })).toBe(
      '[image unknown, 4 characters in base64, not passed on]',
    )
    expect(words({ type: 'resource', resource: { uri: odd } })).toBe('[resource unknown, not passed on]')
    expect(kept({ content: [{ type: odd, data: odd }] })).toEqual([
      'returned',
      { content: [{ type: 'text', text: '[unknown unknown, not passed on]' }] },
    ])
  })

  test('a whole result has structured content that fits the accepted schema, if the tool declares one', () => {
    const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }
    const content = [{ type: 'text', text: 'words' }]
    expect(kept({ content, structuredContent: { n: 1 } }, schema)[0]).toBe('returned')
    expect(kept({ content, structuredContent: { n: 'one' } }, schema)[0]).toBe('invalid_output')
    expect(kept({ content }, schema)[0]).toBe('invalid_output')
    expect(kept({ content, structuredContent: { n: 1 } })).toEqual([
      'returned',
      { content, structuredContent: { n: 1 } },
    ])
  })

  test('a whole result is masked before it is checked', () => {
    const masked = <T>(value: T): T => JSON.parse(JSON.stringify(value).replaceAll('hunter2', 'SECRET')) as T
    const { output } = toolResult(schemaWith(), { content: [{ type: 'text', text: 'hunter2' }] }, masked)
    expect(output).toBe('{"content":[{"text":"SECRET","type":"text"}]}')
  })
})

test('U08 a server that requires a capability of its client gets no answer, and the call fails for that reason', () => {
  const data = { requiredCapabilities: { sampling: {} } }
  expect(refusal({ code: -32021, message: 'x', data }).kind).toBe('upstream_wants_input')
  expect(refusal({ code: -32602, message: 'x', data }).kind).toBe('upstream_error')
})
