// Answers and bodies of requests that several operations have, described once.

import type { Schema } from './json-schema.ts'

type Content = { readonly content?: Readonly<Record<string, { readonly schema?: Schema }>> }
type Part = Schema & Content
type Operation = {
  readonly operationId: string
  readonly requestBody?: Part
  readonly responses: Readonly<Record<string, Part>>
}
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>
type Shared = { readonly paths: Schema; readonly responses: Schema; readonly requestBodies: Schema }

/** Puts what occurs more than once into components, and references in its places. */
export function shareAnswers(paths: Paths): Shared {
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods))
  const answers = new SharedParts(
    'responses',
    operations.flatMap(({ responses }) => Object.values(responses)),
  )
  const bodies = new SharedParts(
    'requestBodies',
    operations.flatMap(({ requestBody }) => (requestBody === undefined ? [] : [requestBody])),
  )
  const referring = ({ operationId, requestBody, responses, ...rest }: Operation): Schema => ({
    operationId,
    ...rest,
    ...(requestBody === undefined ? {} : { requestBody: bodies.refer(operationId, requestBody) }),
    responses: mapped(responses, (answer, status) => answers.refer(operationId, answer, status)),
  })
  return {
    paths: mapped(paths, (methods) => mapped(methods, referring)),
    responses: answers.all,
    requestBodies: bodies.all,
  }
}

class SharedParts {
  readonly all: Record<string, Part> = {}
  readonly #place: string
  readonly #counts = new Map<string, number>()
  readonly #names = new Map<string, string>()

  constructor(place: string, parts: readonly Part[]) {
    this.#place = place
    for (const part of parts) {
      const text = JSON.stringify(part)
      this.#counts.set(text, (this.#counts.get(text) ?? 0) + 1)
    }
  }

  refer(operation: string, part: Part, status = ''): Schema {
    const text = JSON.stringify(part)
    if ('$ref' in part || this.#counts.get(text) === 1) return part
    const name = this.#names.get(text) ?? freeName(nameOf(operation, status, part), this.all)
    this.#names.set(text, name)
    this.all[name] = part
    return { $ref: `#/components/${this.#place}/${name}` }
  }
}

const mapped = <T>(all: Readonly<Record<string, T>>, change: (one: T, name: string) => Schema): Schema =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, change(one, name)]))

/** The name of the part's schema, or of the first operation that has it. */
function nameOf(operation: string, status: string, { content = {} }: Part): string {
  const { $ref, properties } = Object.values(content)[0]?.schema ?? {}
  const name = typeof $ref === 'string' ? ($ref.split('/').at(-1) ?? operation) : operation
  if (typeof properties === 'object' && Object.keys(properties ?? {}).join() === 'done') return 'Done'
  return `${name.charAt(0).toUpperCase()}${name.slice(1)}${status === '202' ? 'Pending' : ''}`
}

function freeName(name: string, taken: Readonly<Record<string, unknown>>): string {
  for (let n = 1; ; n += 1) {
    const free = n === 1 ? name : `${name}${n}`
    if (!(free in taken)) return free
  }
}
