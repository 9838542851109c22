// A tenant's secrets as an isolate holds them: opened once for each version of the directory. It
// says whether a tool may have what it names, hands that to a claim, and knows the values, former
// ones too, that no text may show.

import type { Tool } from '../../shared/wire/tools.ts'
import { logError } from '../platform/error-log.ts'
import { KnownValues } from './known-values.ts'
import type { SealedSecret, Sealing } from './sealing.ts'

/** What a directory holds of a secret. */
export type HeldSecret = SealedSecret & {
  readonly tools: readonly string[]
  readonly hosts: readonly string[] | null
}

type Wanting = Pick<Tool, 'name' | 'secrets' | 'credentials'>

const IN_A_HEADER = /^[\x20-\x7e]+$/

export type Vault = {
  /**
   * Why a tool can't have what it names. What is another tool's, or bound to hosts, is told of as
   * not there (V03).
   */
  readonly withholds: (tool: Wanting) => string | undefined
  /** What a claim hands over; nothing, where one of them is gone. */
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
      logError(secret.name, 'a secret can’t be opened; put it again') // L6: as if it were not there
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
        : `the secret \`${unfit.secret}\` is not one line of plain characters, as a header is`
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

/** Where only policy is asked: every tool has what it names, and nobody is handed any. */
export const SUPPOSED_VAULT: Vault = {
  withholds: () => undefined,
  values: () => undefined,
  known: new KnownValues([]),
}
