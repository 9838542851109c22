// Owns which secrets a call's proxy adds to which requests, so that the tool never holds them (V04). Pure. A destination has the secrets of
// exactly its host and port, and no other has any.

import type { Destination } from '../../../shared/plan/egress-hosts.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'

export type Addition = {
  readonly secret: string
  readonly host: string
  readonly header: string
  /** What the header says: the value, and what stands around it. */
  readonly says: string
  readonly value: string
  readonly over: Over
}
/** In requests as they are, or in those of a tunnel that ends at the proxy. */
export type Over = 'plain' | 'tls'

/** A plan without credentials has none, and a credential without its secret is not there: a claim that lacks one is not verified. */
export const additionsOf = (
  { credentials = [] }: Plan,
  secrets: Readonly<Record<string, string>> = {},
): Addition[] =>
  credentials.flatMap(({ secret, host, header, format = '{}', tls }) => {
    const value = secrets[secret]?.trim()
    return value === undefined
      ? []
      : [
          {
            secret,
            host,
            header,
            says: format.replace('{}', () => value),
            value,
            over: tls === undefined ? 'plain' : 'tls',
          },
        ]
  })

export const additionsFor = (
  additions: readonly Addition[],
  { host, port }: Destination,
  over: Over,
): readonly Addition[] =>
  additions.filter((addition) => addition.host === `${host}:${port}` && addition.over === over)

export const headersOf = (additions: readonly Addition[]): Record<string, string> =>
  Object.fromEntries(additions.map(({ header, says }) => [header, says]))
