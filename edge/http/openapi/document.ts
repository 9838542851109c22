// Generates the OpenAPI 3.1 document from the route table.

import type { Code } from '../../../shared/failures.ts'
import { entryOf, FAILURES } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import type { Caller, Route } from '../../../shared/routes/route.ts'
import { type Paths, shareAnswers } from './answers.ts'
import { COMPONENTS } from './components/all.ts'
import { EXAMPLES, placeExamples } from './examples.ts'
import type { Schema } from './json-schema.ts'
import { parameterText } from './parameters.ts'
import { Schemas } from './schemas.ts'

const TAGS = {
  agent: 'Machines that propose calls, by API key.',
  operator: 'People who approve and administer, by API key.',
  installation: 'The operator of the installation, by the installation key.',
  anyone: 'Open: keys, log, health and documents.',
} as const

/** Failures that any route may answer with, any with a body, and any that needs a caller. */
const COMMON_FAILURES: readonly Code[] = ['headers_too_large', 'invalid_request', 'internal']
const BODY_FAILURES: readonly Code[] = [
  'body_too_large',
  'body_too_slow',
  'not_json',
  'unsupported_media_type',
]
const CALLER_FAILURES: readonly Code[] = ['unauthenticated', 'forbidden']
const PATH_FAILURES: readonly Code[] = ['not_found']

/** The codes of a route besides those that the document states once. */
const ownFailures = ({ path, failures }: Route): readonly Code[] =>
  path.includes('{') ? failures.filter((code) => !PATH_FAILURES.includes(code)) : failures

/**
 * Callers who hold a key, or need none. Pages are for browsers; workers and Slack sign what they
 * send.
 */
const CALLERS: ReadonlySet<Caller> = new Set(['agent', 'operator', 'installation', 'anyone'])
export const isDescribed = ({ callers, media, path }: Route): boolean =>
  media !== 'text/html' && callers.every((caller) => CALLERS.has(caller)) && path !== '/v1/worker/enrol'

const REQUEST_ID = { 'Request-Id': { $ref: '#/components/headers/Request-Id' } }

/** Request headers that many routes read, by the names of the route table. */
const READ = {
  'idempotency-key': {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'A key of your choice. A repeated request with the same key gets the same answer and changes nothing.',
    schema: { type: 'string', minLength: 1, maxLength: 257 },
    example: 'order-4711',
  },
  prefer: {
    name: 'Prefer',
    in: 'header',
    description: `\`wait=N\` (RFC 7240) waits up to N seconds, at most ${LIMITS.wait_s}, for the end of the call or the next item.`,
    schema: { type: 'string' },
    example: 'wait=30',
  },
  'last-event-id': {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'The id of the last event that was received; the stream goes on after it.',
    schema: { type: 'string' },
  },
} as const

const listOf = (codes: readonly Code[]): string => codes.map((code) => `\`${code}\``).join(', ')

let cached: Schema | undefined

/** The document of this edge. All but the URL is made once. */
export function openapi(url: string): Schema {
  cached ??= description(false)
  const { openapi, info, ...rest } = cached
  return { openapi, info, servers: [{ url: url.replace(/\/$/, ''), description: 'This edge.' }], ...rest }
}

/** With `isWhole`, the parts that only `/docs` describes to the last field are described too. */
export function description(isWhole: boolean): Schema {
  const schemas = new Schemas(isWhole)
  const shared = new Parameters()
  const described = paths(schemas, shared)
  for (const { schema, isBase } of Object.values(COMPONENTS)) if (isBase) schemas.of(schema, 'input')
  const finished = schemas.finish({ paths: described, parameters: shared.all() })
  const { paths: shown, components } = placeExamples({
    paths: finished.document['paths'] as Paths, // as `operation` makes them
    components: { Json: ANY_JSON, JsonRpcMessage: JSON_RPC, Problem: PROBLEM, ...finished.components },
  })
  const answers = shareAnswers(shown)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Countersign',
      version: '1',
      summary: 'No tool call of an AI agent runs without a countersign',
      description: `The same for people, with more on each operation and requests to copy, is at \`/docs\`. Unknown fields of requests are refused; answers may get more fields. \`x-failures\` lists the codes of an operation; besides these, any may answer with ${listOf(COMMON_FAILURES)}, with a body ${listOf(BODY_FAILURES)}, with a key ${listOf(CALLER_FAILURES)}, and with a name or an id in its path ${listOf(PATH_FAILURES)}.`,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    security: [{ key: [] }],
    paths: shareParameters(answers.paths),
    components: {
      securitySchemes: SECURITY_SCHEMES,
      headers: HEADERS,
      parameters: finished.document['parameters'],
      requestBodies: answers.requestBodies,
      responses: {
        Problem: REFUSED,
        JsonRpcAccepted: JSON_RPC_ACCEPTED,
        JsonRpcRefusal: JSON_RPC_REFUSAL,
        ...answers.responses,
      },
      schemas: components,
    },
  }
}

const SECURITY_SCHEMES = {
  key: { type: 'http', scheme: 'bearer', description: 'An API key; it carries its tenant.' },
} as const

const HEADERS = {
  'Request-Id': {
    description: 'A random id of this request, which the log of the edge names too.',
    schema: { type: 'string', format: 'uuid' },
  },
  Location: {
    description: 'The path of what was created.',
    schema: { type: 'string', format: 'uri-reference' },
  },
  'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } },
} as const

/** Codes of status 200 only end calls; `ends` marks those that do both. */
const REFUSALS = Object.keys(FAILURES).filter((code) => entryOf(code as Code).status !== 200) // the keys are the codes

const PROBLEM = {
  description: 'Why a request was refused (RFC 9457).',
  type: 'object',
  required: ['type', 'title', 'status', 'code', 'detail', 'todo', 'retry', 'request_id'],
  properties: {
    type: { type: 'string', format: 'uri', description: 'The place in `/docs` that describes the code.' },
    title: { type: 'string', description: 'The code in words.' },
    status: { type: 'integer', description: 'The HTTP status.' },
    code: {
      type: 'string',
      description: 'Stable: a code never changes its meaning.',
      enum: REFUSALS,
    },
    detail: { type: 'string', description: 'What is wrong with this request.' },
    todo: { type: 'string', description: 'What to do next.' },
    retry: { type: 'boolean', description: 'Whether the same request may succeed later.' },
    request_id: { type: 'string', format: 'uuid', description: 'The id in `Request-Id`.' },
    errors: {
      type: 'array',
      description: 'The places that are wrong.',
      items: {
        type: 'object',
        required: ['at', 'message'],
        properties: {
          at: { type: 'string', description: 'A JSON pointer, or a name.' },
          message: { type: 'string', description: 'What is wrong there.' },
          hint: { type: 'string', description: 'What was probably meant.' },
        },
      },
    },
  },
} as const

const REFUSED = {
  description: 'Refused: `code` says why. Statuses and codes are listed in `/docs`.',
  headers: { ...REQUEST_ID, 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/Problem' } } },
} as const

/** Parameters that several operations have, each described once. */
class Parameters {
  readonly #named = new Map<string, { readonly name: string; readonly schema: Schema }>()

  refer(schema: Schema): Schema {
    const { example: _, ...meaning } = schema
    const text = JSON.stringify(meaning)
    const known = this.#named.get(text)
    const taken = [...this.#named.values()].filter(({ name }) => name.split('.')[0] === schema['name']).length
    const name =
      known?.name ?? (taken === 0 ? String(schema['name']) : `${String(schema['name'])}.${taken + 1}`)
    if (known === undefined) this.#named.set(text, { name, schema })
    return { $ref: `#/components/parameters/${name}` }
  }

  all(): Schema {
    return Object.fromEntries([...this.#named.values()].map(({ name, schema }) => [name, schema]))
  }
}

/** Puts parameters that all operations of a path have into the path. */
function shareParameters(paths: Schema): Schema {
  const shared = (methods: Record<string, Schema>): Schema => {
    const all = Object.values(methods).map(({ parameters }) => parameters as Schema[]) // as `operation` makes them
    const isIn = (list: readonly Schema[], one: Schema) => list.some(({ $ref }) => $ref === one['$ref'])
    const common = (all[0] ?? []).filter((one) => all.length > 1 && all.every((list) => isIn(list, one)))
    const rest = Object.entries(methods).map(([method, { parameters, ...operation }]) => {
      const own = (parameters as Schema[]).filter((one) => !isIn(common, one)) // as above
      return [method, { ...operation, ...(own.length === 0 ? {} : { parameters: own }) }]
    })
    return { ...(common.length === 0 ? {} : { parameters: common }), ...Object.fromEntries(rest) }
  }
  return Object.fromEntries(
    Object.entries(paths).map(([path, methods]) => [path, shared(methods as Record<string, Schema>)]), // as above
  )
}

function paths(schemas: Schemas, shared: Parameters): Schema {
  const all: Record<string, Schema> = {}
  for (const [name, route] of Object.entries(ROUTES as Record<string, Route>)) {
    if (!isDescribed(route)) continue
    const described = operation(name, route, schemas, shared)
    all[route.path] = { ...all[route.path], [route.method.toLowerCase()]: described }
  }
  return all
}

const BYTES = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } }

/** JSON-RPC has a specification of its own, so its messages are described in words. */
const MESSAGE = { $ref: '#/components/schemas/JsonRpcMessage' }
const ANY_JSON = { description: 'Any JSON value.' }
const JSON_RPC = {
  description: 'A JSON-RPC 2.0 message of the Model Context Protocol. Refusals are messages too.',
  type: 'object',
} as const

const JSON_RPC_ACCEPTED = {
  description: 'A notification, accepted without a body',
  headers: REQUEST_ID,
} as const
const JSON_RPC_REFUSAL = {
  description:
    'Refused: a message with `error`; its `data.code` is the code of a problem. An error within the protocol has status 200.',
  headers: { ...REQUEST_ID, 'Retry-After': { $ref: '#/components/headers/Retry-After' } },
  content: { 'application/json': { schema: MESSAGE, example: EXAMPLES['mcp']?.refusal } },
} as const

const bytesOf = ({ refusals }: Route): Schema =>
  refusals === 'json-rpc' ? { 'application/json': { schema: MESSAGE } } : BYTES

/** The first clause of a long summary. All of it is in `/docs`. */
const titleOf = (summary: string): string =>
  summary.length <= 60 ? summary : (/^.{15,}?(?=; |\. |: )/.exec(summary)?.[0] ?? summary)

function operation(name: string, route: Route, schemas: Schemas, shared: Parameters): Schema {
  const { callers, summary, body } = route
  const failures = ownFailures(route)
  return {
    operationId: name,
    summary: titleOf(summary),
    tags: [callers[0]],
    ...(failures.length === 0 ? {} : { 'x-failures': failures }),
    ...(callers.includes('anyone') ? { security: [] } : {}),
    parameters: parameters(name, route, schemas).map((parameter) => shared.refer(parameter)),
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: true,
            content: route.raw
              ? bytesOf(route)
              : { 'application/json': { schema: schemas.of(body, 'input') } },
          },
        }),
    responses: {
      ...successes(route, schemas),
      ...(route.refusals === 'json-rpc'
        ? {
            202: { $ref: '#/components/responses/JsonRpcAccepted' },
            default: { $ref: '#/components/responses/JsonRpcRefusal' },
          }
        : { default: { $ref: '#/components/responses/Problem' } }),
    },
  }
}

function successes(route: Route, schemas: Schemas): Schema {
  const { status, pending_until, location } = route
  const content = contentOf(route, schemas)
  const located = location === undefined ? {} : { Location: { $ref: '#/components/headers/Location' } }
  const success = {
    description: status === 201 ? 'Created' : 'Done',
    headers: { ...REQUEST_ID, ...(status === 201 ? located : {}) },
    content,
  }
  if (pending_until === undefined) return { [status]: success }
  const pending = {
    description: `Not yet: \`${pending_until}\` is absent`,
    headers: { ...REQUEST_ID, ...located },
    content,
  }
  return { [status]: success, 202: pending }
}

function contentOf(route: Route, schemas: Schemas): Schema {
  const { media, events, result, refusals } = route
  if (refusals === 'json-rpc')
    return { 'application/json': { schema: MESSAGE }, 'text/event-stream': { schema: { type: 'string' } } }
  if (media === undefined) return { 'application/json': { schema: schemas.of(result, 'output') } }
  if (media === 'application/octet-stream') return BYTES
  const described = Object.entries(events ?? {}).map(([event, data]) => [event, schemas.of(data, 'output')])
  return {
    [media]: {
      schema: { type: 'string' },
      ...(events === undefined ? {} : { 'x-events': Object.fromEntries(described) }),
    },
  }
}

function parameters(name: string, route: Route, schemas: Schemas): Schema[] {
  const { params, query, headers, reads = [] } = route
  const { parameters: examples = {} } = EXAMPLES[name] ?? {}
  const of = (place: string, object: Route['params']): Schema[] =>
    shown(object).map(([key, type]) => ({
      name: place === 'header' ? headerName(key) : key,
      in: place,
      ...(place === 'path' || !type.safeParse(undefined).success ? { required: true } : {}),
      description: parameterText(name, key),
      schema: schemas.of(type, 'input'),
      ...(place !== 'query' && key in examples ? { example: examples[key] } : {}),
    }))
  const read = reads.map((header) => READ[header])
  return [...of('path', params), ...of('query', query), ...of('header', headers), ...read]
}

/** Without `Content-Type`, which the media type of the body says. */
const shown = (object: Route['params']) =>
  Object.entries(object?.shape ?? {}).filter(([key]) => key !== 'content-type')

/** Header names as documents write them: `If-Match`, `Last-Event-ID`. */
const headerName = (key: string): string =>
  key
    .split('-')
    .map((part) => (part === 'id' ? 'ID' : part.charAt(0).toUpperCase() + part.slice(1)))
    .join('-')
