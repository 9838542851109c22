// The arguments of the tool with which the suite checks that keywords of JSON Schema 2020-12 stay.

const TEXT = { type: 'string', maxLength: 200 }

/** `address`: further keywords of a definition. */
export const schemaWith = (address: Readonly<Record<string, unknown>>) => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  type: 'object' as const,
  $defs: { address: { ...address, type: 'object', properties: { street: TEXT, city: TEXT } } },
  properties: {
    name: TEXT,
    address: { $ref: '#/$defs/address' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] },
    phone: TEXT,
    email: TEXT,
  },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ['phone'] },
  else: { required: ['email'] },
  additionalProperties: false,
})
