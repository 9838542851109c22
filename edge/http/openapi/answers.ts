// Answers that several operations have, described once.

import type { Schema } from './schemas.ts'

type Answer = Schema & { readonly content?: Readonly<Record<string, { readonly schema?: Schema }>> }
type Operation = { readonly operationId: string; readonly responses: Readonly<Record<string, Answer>> }
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** Puts answers that occur more than once into components, and references in their places. */
export function shareAnswers(paths: Paths): { readonly paths: Schema; readonly responses: Schema } {
  const counts = new Map<string, number>()
  for (const { responses } of Object.values(paths).flatMap((methods) => Object.values(methods)))
    for (const answer of Object.values(responses)) {
      const text = JSON.stringify(answer)
      counts.set(text, (counts.get(text) ?? 0) + 1)
    }
  const names = new Map<string, string>()
  const shared: Record<string, Answer> = {}
  const refer = (operation: string, status: string, answer: Answer): Schema => {
    const text = JSON.stringify(answer)
    if ('$ref' in answer || counts.get(text) === 1) return answer
    const name = names.get(text) ?? freeName(nameOf(operation, status, answer), shared)
    names.set(text, name)
    shared[name] = answer
    return { $ref: `#/components/responses/${name}` }
  }
  const referring = ({ operationId, responses, ...rest }: Operation): Schema => ({
    operationId,
    ...rest,
    responses: mapped(responses, (answer, status) => refer(operationId, status, answer)),
  })
  return { paths: mapped(paths, (methods) => mapped(methods, referring)), responses: shared }
}

const mapped = <T>(all: Readonly<Record<string, T>>, change: (one: T, name: string) => Schema): Schema =>
  Object.fromEntries(Object.entries(all).map(([name, one]) => [name, change(one, name)]))

/** The name of the answer's schema, or of the first operation that answers so. */
function nameOf(operation: string, status: string, { content = {} }: Answer): string {
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
