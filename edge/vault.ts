// A tenant's secrets as an isolate holds them: opened once for each version of the directory. It says whether a tool may have what it
// names, hands that to a claim, and knows the values that no text may show.

import type { Tool } from '../shared/wire.ts'
import { KnownValues } from './known-values.ts'
import { logError } from './log.ts'
import type { SealedSecret, Sealing } from './sealing.ts'

/** What a directory holds of a secret. */
export type HeldSecret = SealedSecret & { readonly tools: readonly string[] }

type Wanting = Pick<Tool, 'name' | 'secrets'>

export type Vault = {
  /** Why a tool can't have what it names. A secret that is another tool's is told of as one that is not there (V03). */
  readonly withholds: (tool: Wanting) => string | undefined
  /** What a claim hands over; nothing, where one of them is gone. */
  readonly values: (names: readonly string[]) => Record<string, string> | undefined
  readonly known: KnownValues
}

export function openVault(held: readonly HeldSecret[], sealing: Sealing): Vault {
  const opened = new Map<string, { value: string; tools: readonly string[] }>()
  for (const secret of held) {
    const value = sealing.open(secret)
    if (value === undefined)
      logError(secret.name, 'a secret can’t be opened; put it again') // L6: as if it were not there
    else opened.set(secret.name, { value, tools: secret.tools })
  }
  return {
    withholds({ name, secrets = [] }) {
      const lacking = secrets.find((secret) => opened.get(secret)?.tools.includes(name) !== true)
      return lacking === undefined ? undefined : `there is no secret \`${lacking}\` for \`${name}\``
    },
    values(names) {
      const values = names.flatMap((name) => opened.get(name)?.value ?? [])
      return values.length < names.length ? undefined : Object.fromEntries(names.map((name, i) => [name, values[i] ?? '']))
    },
    known: new KnownValues([...opened.values()].map(({ value }) => value)),
  }
}

/** Where only policy is asked: every tool has what it names, and nobody is handed any. */
export const SUPPOSED_VAULT: Vault = {
  withholds: () => undefined,
  values: () => undefined,
  known: new KnownValues([]),
}
