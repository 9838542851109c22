// A named schema of the API description, with a sentence on each of its fields. The compiler
// refuses a field without one, and a sentence without its field. The sentence is empty where the
// name of the field and its type say all there is to say.

import type { z } from 'zod'

export type Component = {
  readonly schema: z.ZodType
  readonly description: string
  readonly fields: Readonly<Record<string, string>>
  /** Described by this sentence alone, because its parts would be long and of little use. */
  readonly isOpaque?: true
  /** No route has it, but other schemas are written as extensions of it. */
  readonly isBase?: true
  /** Fields whose sentence stands for their parts, which only our own tools write or read. */
  readonly outlined?: readonly string[]
}

export const object = <T extends z.ZodObject>(
  schema: T,
  description: string,
  fields: { readonly [K in keyof T['shape'] & string]: string },
): Component => ({ schema, description, fields })

/** A schema that is not an object: a union, an enumeration, a list. */
export const plain = (schema: z.ZodType, description: string): Component => ({
  schema,
  description,
  fields: {},
})

export const opaque = (schema: z.ZodType, description: string): Component => ({
  ...plain(schema, description),
  isOpaque: true,
})

/** An object of which some fields are described by their sentences alone. */
export const outlined = (component: Component, ...outlined: readonly string[]): Component => ({
  ...component,
  outlined,
})

export const base = (component: Component): Component => ({ ...component, isBase: true })
