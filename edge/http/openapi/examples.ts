// Examples of the API description: requests that a real edge has accepted, and its answers, with
// ids, digests and times replaced. test/infra/openapi-examples.test.ts records and checks them.

import recorded from './examples.json' with { type: 'json' }

export type Example = {
  readonly parameters?: Readonly<Record<string, unknown>>
  readonly request?: unknown
  readonly response?: unknown
}

export const EXAMPLES: Readonly<Record<string, Example>> = recorded
