// A tenant's secrets in an isolate, opened once per version of the directory. It checks whether a
// tool may use the secrets it names, hands values to a claim, and knows all current and former
// values that must be masked.

import type { Tool } from '../../shared/wire/tools.ts'
import { logError } from '../platform/error-log.ts'
import { KnownValues } from './known-values.ts'
import type { SealedSecret, Sealing } from './sealing.ts'

/** A sealed secret in the directory. */
export type HeldSecret = SealedSecret & {
  readonly tools: readonly string[]
  readonly hosts: readonly string[] | null
}

type SecretNeeds = Pick<Tool, 'name' | 'secrets' | 'credentials'>

const IN_A_HEADER = /^[\x20-\x7e]+$/

export type Vault = {
  /**
   * The reason why a tool can't use a secret that it names. A secret of another tool, or one bound
   * to hosts, is reported as missing (V03).
   */
  readonly withholds: (tool: SecretNeeds) => string | undefined
  /** The values that a claim hands over; undefined if any of them is gone. */
  readonly values: (names: readonly string[]) => Record<string, string> | undefined
  readonly known: KnownValues
}

export function openVault(
  held: readonly HeldSecret[],
  former: readonly SealedSecret[],
  sealing: Sealing,
): Vault {
  const opened = new Map<string, HeldSecret & { value: string }>()
  for (const secret of held) {
    const value = sealing.open(secret)
    if (value === undefined)
      logError('a secret can’t be opened; store it again', { secret: secret.name }) // L6: treated as missing
    else opened.set(secret.name, { ...secret, value })
  }
  return {
    withholds({ name, secrets = [], credentials = [] }) {
      const own = (secret: string) =>
        opened.get(secret)?.tools.includes(name) === true ? opened.get(secret) : undefined
      const lacking =
        secrets.find((secret) => own(secret)?.hosts !== null) ??
        credentials.find(
          ({ secret, host }) => own(secret)?.hosts?.includes(host) === false || own(secret) === undefined,
        )?.secret
      if (lacking !== undefined) return `there is no secret \`${lacking}\` for \`${name}\``
      const unfit = credentials.find(({ secret }) => !IN_A_HEADER.test(own(secret)?.value.trim() ?? ''))
      return unfit === undefined
        ? undefined
        : `the secret \`${unfit.secret}\` can’t be a header: it is not one line of ASCII characters`
    },
    values(names) {
      const values = names.flatMap((name) => opened.get(name)?.value ?? [])
      return values.length < names.length
        ? undefined
        : Object.fromEntries(names.map((name, i) => [name, values[i] ?? '']))
    },
    known: new KnownValues([
      ...[...opened.values()].map(({ value }) => value),
      ...former.flatMap((secret) => sealing.open(secret) ?? []),
    ]),
  }
}

/**
 * For hypothetical calls: every tool may use the secrets it names, and no values are handed out.
 */
export const HYPOTHETICAL_VAULT: Vault = {
  withholds: () => undefined,
  values: () => undefined,
  known: new KnownValues([]),
}
