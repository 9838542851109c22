// Promise: /openapi.json describes every route that a client can call, so that generators make
// working clients of it, and /docs shows the same to people.

import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { BaseResolver, createConfig, lintDocument, makeDocumentFromString } from '@redocly/openapi-core'
import { expect, onTestFinished, test } from 'vitest'
import { isDescribed } from '../../edge/http/openapi/document.ts'
import { ROOT } from '../../infra/state.ts'
import { FAILURES } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Route } from '../../shared/routes/route.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'

const run = promisify(execFile)
const fixtures = new Fixtures('openapi', sharedStack())
const routes = Object.entries(ROUTES) as [string, Route][]
const text = await (await fetch(new URL('/openapi.json', fixtures.url))).text()

type Schema = {
  $ref?: string
  type?: string
  items?: Schema
  properties?: Record<string, Schema>
  allOf?: Schema[]
  examples?: unknown[]
}
type Content = Record<string, { schema: Schema; example?: unknown }>
type Answer = { headers?: object; content?: Content }
type Operation = {
  operationId: string
  security?: unknown[]
  responses: Record<string, Answer>
  requestBody?: { content: Content }
  parameters?: { $ref: string }[]
  'x-failures'?: string[]
}
type Field = Schema & { description?: string }
type Component = Field & { properties?: Record<string, Field>; allOf?: Component[] }
type PathItem = Record<string, Operation> & { parameters?: { $ref: string }[] }
type Document = {
  openapi: string
  paths: Record<string, PathItem>
  components: {
    schemas: Record<string, Component>
    parameters: Record<string, { name: string; in: string; description?: string }>
    responses: Record<string, Answer>
    requestBodies: Record<string, NonNullable<Operation['requestBody']>>
  }
}
const document = JSON.parse(text) as Document // the first test lints it
/** An answer, or the one that several operations refer to. */
const resolved = (answer: Answer & { $ref?: string }): Answer =>
  document.components.responses[answer.$ref?.split('/').at(-1) ?? ''] ?? answer
const resolvedBody = (body: (NonNullable<Operation['requestBody']> & { $ref?: string }) | undefined) =>
  document.components.requestBodies[body?.$ref?.split('/').at(-1) ?? ''] ?? body
const operations = Object.entries(document.paths).flatMap(([path, { parameters: shared = [], ...methods }]) =>
  Object.entries(methods).map(([method, { responses, requestBody, parameters = [], ...rest }]) => {
    const answers = Object.entries(responses).map(([status, answer]) => [status, resolved(answer)] as const)
    return {
      path,
      method: method.toUpperCase(),
      operation: {
        ...rest,
        requestBody: resolvedBody(requestBody),
        parameters: [...shared, ...parameters],
        responses: Object.fromEntries(answers),
      },
    }
  }),
)
const parametersOf = ({ parameters = [] }: Pick<Operation, 'parameters'>) =>
  parameters.map(({ $ref }) => document.components.parameters[$ref.split('/').at(-1) ?? ''])

/** Beyond the recommended rules: examples fit their schemas, and nothing is left without words. */
const RULES = {
  'operation-4xx-response': 'off', // `default` stands for every status that is no success
  'no-invalid-media-type-examples': 'error',
  'no-invalid-schema-examples': 'error',
  'no-invalid-parameter-examples': 'error',
  'no-unused-components': 'error',
  'no-ambiguous-paths': 'off', // the table says which route is first: /v1/skills/{id}/rollback and …/{version}
  'operation-operationId-unique': 'error',
  'operation-operationId-url-safe': 'error',
  'operation-parameters-unique': 'error',
  'operation-description': 'off', // a summary says it
  'operation-singular-tag': 'error',
  'operation-tag-defined': 'error',
  'parameter-description': 'error',
  'tag-description': 'error',
} as const

test('/openapi.json passes the recommended rules and stricter ones without a finding', async () => {
  const config = await createConfig({ extends: ['recommended'], rules: RULES })
  const problems = await lintDocument({
    document: makeDocumentFromString(text, '/openapi.json'),
    externalRefResolver: new BaseResolver(),
    config,
  })
  expect(
    problems.map(
      ({ ruleId, message, severity, location }) =>
        `${severity} ${ruleId} ${location[0]?.pointer}: ${message}`,
    ),
  ).toEqual([])
})

test('the edge serves the page and the schemas of evidence, the page under the path of the predicate type', async () => {
  const { pathname } = new URL('https://countersign.dev/attestation/v1')
  const page = await fetch(new URL(pathname, fixtures.url))
  expect(page.headers.get('content-type')).toBe('text/plain; charset=utf-8')
  expect(await page.text()).toBe(readFileSync(join(ROOT, 'docs/evidence.md'), 'utf8'))
  const schema = await fetch(new URL('/schemas/bundle.json', fixtures.url))
  expect(schema.headers.get('content-type')).toBe('application/schema+json')
  expect(await schema.json()).toMatchObject({ title: 'Evidence of one call', type: 'object' })
  expect((await fetch(new URL('/schemas/constructor.json', fixtures.url))).status).toBe(404)
})

test('/openapi.json has at most 1,500 bytes for each operation', () => {
  const operations = text.match(/"operationId":/g) ?? []
  expect(operations.length).toBeGreaterThan(100)
  expect(Buffer.byteLength(text) / operations.length).toBeLessThanOrEqual(1_500)
})

test('/openapi.json has every route that a client can call with a key or without one, and no other', () => {
  expect(document.openapi).toMatch(/^3\.1\./)
  const callable = routes.filter(
    ([, { callers, media }]) =>
      callers.every((caller) => ['agent', 'operator', 'installation', 'anyone'].includes(caller)) &&
      media !== 'text/html',
  )
  const names = callable.map(([name]) => name).filter((name) => name !== 'enrol') // a worker’s
  expect(operations.map(({ operation }) => operation.operationId).sort()).toEqual(names.sort())
  for (const { path, method, operation } of operations) {
    const route = (ROUTES as Record<string, Route>)[operation.operationId]
    expect([route?.path, route?.method]).toEqual([path, method])
    expect([path, operation.security]).toEqual([path, route?.callers.includes('anyone') ? [] : undefined])
    expect([path, operation.requestBody !== undefined]).toEqual([path, route?.body !== undefined])
    expect(Object.keys(operation.responses)).toEqual(
      expect.arrayContaining([String(route?.status), 'default']),
    )
    const inPath = parametersOf(operation).flatMap((one) => (one?.in === 'path' ? [`{${one.name}}`] : []))
    expect(inPath.sort()).toEqual((path.match(/\{\w+\}/g) ?? []).sort())
    // The document says once that any name or id in a path may be unknown.
    const own = route?.failures.filter((code) => code !== 'not_found' || !path.includes('{'))
    expect([path, operation['x-failures'] ?? []]).toEqual([path, own])
  }
})

test('every answer has a request id, and 201 and 202 a location', () => {
  for (const { path, operation } of operations)
    for (const [status, { headers }] of Object.entries(operation.responses)) {
      if (status === 'default') continue
      expect([path, Object.keys(headers ?? {})]).toEqual([path, expect.arrayContaining(['Request-Id'])])
    }
  const located = operations.flatMap(({ operation: { operationId, responses } }) =>
    Object.entries(responses).flatMap(([status, { headers = {} }]) =>
      'Location' in headers ? [`${operationId} ${status}`] : [],
    ),
  )
  expect(located.sort()).toEqual([
    'createRun 201',
    'createTenant 201',
    'proposeCall 202',
    'proposeCallInNewRun 202',
  ])
})

test('the standard headers that a route reads are parameters', () => {
  const having = (name: string) =>
    operations
      .filter(({ operation }) => parametersOf(operation).some((one) => one?.name === name))
      .map(({ operation }) => operation.operationId)
      .sort()
  expect(having('Idempotency-Key')).toEqual(['createRun', 'proposeCall', 'proposeCallInNewRun'])
  expect(having('Last-Event-ID')).toEqual(['followCall', 'streamEvents'])
  expect(having('Prefer')).toEqual([
    'listChanges',
    'listEndedCalls',
    'proposeCall',
    'proposeCallInNewRun',
    'readCall',
    'readCallById',
  ])
})

test('every operation has an example: of its JSON body, or of its JSON answer', () => {
  const without = operations.flatMap(({ operation: { operationId, requestBody, responses } }) => {
    const body = requestBody?.content['application/json']
    const answers = Object.entries(responses).filter(([status]) => status !== 'default')
    const json = body ?? answers.flatMap(([, { content }]) => content?.['application/json'] ?? [])[0]
    return json === undefined || 'example' in json || isShown(json.schema) ? [] : [operationId]
  })
  expect(without).toEqual([])
})

/** Whether a schema has an example, or consists of one that has, or of a list of them. */
function isShown({ $ref, type, items, properties = {}, allOf = [], examples }: Schema): boolean {
  const named = $ref === undefined ? undefined : document.components.schemas[$ref.split('/').at(-1) ?? '']
  if (examples !== undefined || (named !== undefined && isShown(named))) return true
  if (type === 'array' && items !== undefined) return isShown(items)
  return [...Object.values(properties), ...allOf].some(isShown)
}

test('every named schema, and each of its fields, says what it is or has a named type', () => {
  const silent = Object.entries(document.components.schemas).flatMap(
    ([name, { description, allOf = [], ...whole }]) => [
      ...(description === undefined ? [name] : []),
      ...[whole, ...allOf]
        .flatMap(({ properties }) => Object.entries(properties ?? {}))
        .flatMap(([field, { description, $ref }]) =>
          description === undefined && $ref === undefined ? [`${name}.${field}`] : [],
        ),
    ],
  )
  expect(silent).toEqual([])
})

test('a Python client made of /openapi.json alone proposes a call and reads it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-openapi-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
  writeFileSync(join(folder, 'openapi.json'), text)
  const program = join(import.meta.dirname, '../support/http/openapi_client.py')
  const { stdout } = await run('python3', [program, join(folder, 'openapi.json'), tool], {
    env: { ...process.env, COUNTERSIGN_KEY: agent.key },
  })
  expect(JSON.parse(stdout)).toEqual({
    proposed: [202, 'granted'],
    located: true,
    listed: [200, true],
    refused: [404, 'not_found'],
    undescribed: [],
  })
})

// ── /docs ──

const docs = await (await fetch(new URL('/docs', fixtures.url))).text()

test('/docs has an anchor and requests to copy for every operation, and lists every other route', () => {
  for (const [name, route] of routes) {
    const { method, path } = route
    expect(docs).toContain(`<article id="${name}">`)
    expect(docs).toContain(`${method} ${path}`)
    if (!isDescribed(route)) continue
    const article = docs.slice(docs.indexOf(`<article id="${name}">`)).split('</article>')[0]
    for (const title of ['curl', 'TypeScript', 'Python'])
      expect(article).toContain(`<summary>${title}</summary>`)
  }
})

test('/docs has an anchor for every failure, every limit, and every link on the page', () => {
  for (const code of Object.keys(FAILURES)) expect(docs).toContain(`<tr id="problem-${code}">`)
  for (const name of [...Object.keys(FAILURES), ...Object.keys(LIMITS)])
    expect(docs).toContain(`<code>${name}</code>`)
  const ids = new Set([...docs.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
  const links = [...docs.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id)
  expect(links.filter((id) => !ids.has(id))).toEqual([])
  expect([...docs.matchAll(/ id="/g)]).toHaveLength(ids.size)
})

test('the requests on /docs work as they are copied: curl, TypeScript and Python', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-docs-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const agent = await fixtures.agent()
  const article = docs.slice(docs.indexOf('<article id="listRuns">')).split('</article>')[0] ?? ''
  const codeOf = (title: string): string => {
    const [, shown = ''] =
      new RegExp(`<summary>${title}</summary><pre class="copy">([^<]*)</pre>`).exec(article) ?? []
    return shown
      .replaceAll('&quot;', '"')
      .replaceAll('&#39;', "'")
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&amp;', '&')
  }
  writeFileSync(join(folder, 'a.mjs'), codeOf('TypeScript'))
  writeFileSync(join(folder, 'a.py'), codeOf('Python'))
  writeFileSync(join(folder, 'a.sh'), codeOf('curl'))
  for (const [program, file] of [
    ['sh', 'a.sh'],
    [process.execPath, 'a.mjs'],
    ['python3', 'a.py'],
  ] as const) {
    const { stdout } = await run(program, [join(folder, file)], {
      env: { ...process.env, COUNTERSIGN_KEY: agent.key },
    })
    expect(stdout).toMatch(/items.*next/s)
  }
})

test('/docs runs only its own script, and its search and copy buttons need no other', async () => {
  const answer = await fetch(new URL('/docs', fixtures.url))
  expect(answer.headers.get('content-security-policy')).toMatch(/default-src 'none'.*script-src 'sha256-/)
  expect([...(await answer.text()).matchAll(/<script/g)]).toHaveLength(1)
})
