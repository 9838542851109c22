// A named schema of the API description, with a sentence on each of its fields. The compiler refuses
// a field without one, and a sentence without its field. The sentence is empty where the named type
// of the field says all there is to say.

import type { z } from 'zod'

export type Component = {
  readonly schema: z.ZodType
  readonly description: string
  readonly fields: Readonly<Record<string, string>>
  /** Described by these words alone: its parts would take more room than they are worth to a reader. */
  readonly isOpaque?: true
}

export const object = <T extends z.ZodObject>(
  schema: T,
  description: string,
  fields: { readonly [K in keyof T['shape'] & string]: string },
): Component => ({ schema, description, fields })

/** A schema that is no object: a union, an enumeration, a list. */
export const plain = (schema: z.ZodType, description: string): Component => ({
  schema,
  description,
  fields: {},
})

export const opaque = (schema: z.ZodType, description: string): Component => ({
  ...plain(schema, description),
  isOpaque: true,
})
