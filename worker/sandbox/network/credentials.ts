// Owns which secrets a call's proxy adds to which requests, so that the tool never holds them
// (V04). Pure. A secret is sent to exactly its host and port.

import type { Destination } from '../../../shared/plan/egress-hosts.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'

export type Addition = {
  readonly secret: string
  readonly host: string
  readonly header: string
  /** The whole header: the secret's value within its format, such as `Bearer {}`. */
  readonly text: string
  readonly value: string
  readonly over: Transport
}
/** Plain HTTP, or HTTP in a TLS tunnel that ends at the proxy. */
export type Transport = 'plain' | 'tls'

/**
 * Leaves out a credential whose secret is missing: a claim without that secret is refused before.
 */
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
            text: format.replace('{}', () => value),
            value,
            over: tls === undefined ? 'plain' : 'tls',
          },
        ]
  })

export const additionsFor = (
  additions: readonly Addition[],
  { host, port }: Destination,
  over: Transport,
): readonly Addition[] =>
  additions.filter((addition) => addition.host === `${host}:${port}` && addition.over === over)

export const headersOf = (additions: readonly Addition[]): Record<string, string> =>
  Object.fromEntries(additions.map(({ header, text }) => [header, text]))
