// Generates the OpenAPI 3.1 document from the route table.

import { z } from 'zod'
import type { Code } from '../../shared/failures.ts'
import { entryOf, FAILURES } from '../../shared/failures.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Caller, Route } from '../../shared/routes/route.ts'

type Schema = Record<string, unknown>

const jsonSchema = (type: z.ZodType, io: 'input' | 'output'): Schema => {
  const options = { io, target: 'draft-2020-12', unrepresentable: 'any', reused: 'inline' } as const
  const { $schema: _, $defs: __, ...schema } = z.toJSONSchema(type, options)
  // Our only recursive schema is JSON itself. Its local `$defs` reference breaks once the schema is
  // embedded in the document, so it points to a shared component.
  return JSON.parse(
    JSON.stringify(schema).replaceAll(/"#\/\$defs\/\w+"/g, '"#/components/schemas/Json"'),
  ) as Schema // a schema before, and a schema after
}

const SECURITY: Record<Caller, Schema | null> = {
  agent: { key: [] },
  operator: { key: [] },
  console: { session: [] },
  worker: { signature: [] },
  link: null,
  slack: { slack: [] },
  installation: { key: [] },
  anyone: null,
}

const CALLER_DESCRIPTIONS: Record<Caller, string> = {
  agent: 'Machines that propose calls, by API key.',
  operator: 'People who approve and administer, by API key.',
  console: 'Pages for operators, by the session of a browser.',
  worker: 'Hosts that run calls, by signature.',
  slack: 'Slack, by its signature over the body.',
  installation: 'The operator of the installation, by the installation key.',
  link: 'Approvers, each by a personal link.',
  anyone: 'Open: keys, log, health and documents.',
}

/** Failures of every route, in addition to those that the table lists for it. */
const ALWAYS: readonly Code[] = ['headers_too_large', 'internal']
const WITH_BODY: readonly Code[] = [
  'body_too_large',
  'body_too_slow',
  'not_json',
  'invalid_request',
  'unsupported_media_type',
]

let cachedPaths: Schema | undefined

export function openapi(url: string): Schema {
  cachedPaths ??= { paths: paths() }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Countersign',
      version: '1',
      summary: 'No tool call of an AI agent runs without a countersign',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url }],
    tags: Object.entries(CALLER_DESCRIPTIONS).map(([name, description]) => ({ name, description })),
    ...cachedPaths,
    components: {
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key; it carries its tenant.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-countersign',
          description: 'A session of the console.',
        },
        slack: {
          type: 'apiKey',
          in: 'header',
          name: 'x-slack-signature',
          description: 'HMAC-SHA256 over version, time and body, as Slack signs.',
        },
        signature: {
          type: 'apiKey',
          in: 'header',
          name: 'signature',
          description: 'RFC 9421 with Ed25519 over method, authority, path and content-digest.',
        },
      },
      schemas: {
        Json: { description: 'Any JSON value.' },
        Problem: {
          type: 'object',
          required: ['type', 'title', 'status', 'code', 'detail', 'todo'],
          properties: {
            type: { type: 'string', format: 'uri' },
            title: { type: 'string' },
            status: { type: 'integer' },
            code: { type: 'string', enum: Object.keys(FAILURES) },
            detail: { type: 'string' },
            todo: { type: 'string', description: 'What to do next.' },
            retry: { type: 'boolean' },
            epoch: {
              type: 'string',
              description:
                'With `stale_epoch`: the prefix that the nonces of the worker’s signatures must have.',
            },
            errors: {
              type: 'array',
              items: {
                type: 'object',
                properties: { at: { type: 'string' }, message: { type: 'string' }, hint: { type: 'string' } },
              },
            },
          },
        },
      },
    },
  }
}

function paths(): Schema {
  const all: Record<string, Schema> = {}
  for (const [name, route] of Object.entries(ROUTES as Record<string, Route>)) {
    all[route.path] = { ...all[route.path], [route.method.toLowerCase()]: operation(name, route) }
  }
  return all
}

const BYTES = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }

function operation(name: string, route: Route): Schema {
  const { callers, summary, action, body, media, events } = route
  const schemes = callers.map((caller) => SECURITY[caller]).filter((scheme) => scheme !== null)
  const [tag] = callers
  const content =
    media === undefined
      ? { 'application/json': { schema: jsonSchema(route.result, 'output') } }
      : media === 'application/octet-stream'
        ? BYTES
        : {
            [media]: {
              schema: { type: 'string' },
              ...(events === undefined ? {} : { 'x-events': eventsOf(events) }),
            },
          }
  return {
    operationId: name,
    summary,
    tags: [tag],
    ...(action === null ? {} : { 'x-cedar-action': action }),
    security: schemes.length === 0 ? [] : [schemes[0]],
    parameters: parameters(route),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content:
              route.raw && route.refusals !== 'json-rpc'
                ? BYTES
                : { 'application/json': { schema: jsonSchema(body, 'input') } },
          },
        }),
    responses: { [route.status]: { description: 'Done', content }, ...problems(route) },
  }
}

const eventsOf = (events: NonNullable<Route['events']>): Schema =>
  Object.fromEntries(Object.entries(events).map(([name, data]) => [name, jsonSchema(data, 'output')]))

function parameters({ params, query, headers }: Route): Schema[] {
  const of = (place: string, object: z.ZodObject | undefined): Schema[] => {
    if (object === undefined) return []
    const { properties = {}, required = [] } = jsonSchema(object, 'input') as {
      properties?: Record<string, Schema>
      required?: string[]
    } // an object's schema
    return Object.entries(properties).map(([name, schema]) => ({
      name,
      in: place,
      required: place === 'path' || required.includes(name),
      schema,
    }))
  }
  return [...of('path', params), ...of('query', query), ...of('header', headers)]
}

function problems({ failures, callers, body, action }: Route): Schema {
  const open = callers.some((caller) => caller === 'anyone' || caller === 'link' || caller === 'slack')
  const codes: Code[] = [
    ...failures,
    ...ALWAYS,
    ...(body === undefined ? [] : WITH_BODY),
    ...(open ? [] : (['unauthenticated'] as const)),
    ...(action === null ? [] : (['forbidden'] as const)),
  ]
  const byStatus = Map.groupBy(new Set(codes), (code) => FAILURES[code].status)
  return Object.fromEntries(
    [...byStatus]
      .filter(([status]) => status >= 400)
      .map(([status, names]) => [
        status,
        {
          description: names.join(', '),
          ...(names.some((code) => entryOf(code).after_s !== undefined)
            ? { headers: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } } }
            : {}),
          content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
        },
      ]),
  )
}
