// From a core module to a component of the world: the one place of the command line that knows the tools for that. A skill's component
// imports what its manifest names, and nothing else.

import { componentEmbed, componentNew, parse } from '@bytecodealliance/jco-transpile/wasm-tools'
import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { WORLD } from '../../shared/wire/skill-world.ts'

/** Modules that stand between the main one and the world, each by the name that the main one imports it by. */
export type Between = { readonly name: string; readonly text: string; readonly imports: 'world' | 'nothing' }

const NOTHING = 'package countersign:engine; world nothing {}'

const worldOf = (granted: readonly SkillCapability[]): string =>
  WORLD.replace(/^ {2}import ([a-z]+);\n/gm, (line, name) =>
    granted.some((one) => one === name) ? line : '',
  )

/** A module whose own imports and exports are the world's. */
export async function componentOf(
  module: Uint8Array,
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  return made(async () =>
    componentNew(await componentEmbed({ binary: module, witSource: worldOf(granted), world: 'skill' }), []),
  )
}

/** A module that knows nothing of the world, and others that stand between the two. */
export async function componentAround(
  module: Uint8Array,
  between: readonly Between[],
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  const [world, nothing] = [
    { witSource: worldOf(granted), world: 'skill' },
    { witSource: NOTHING, world: 'nothing' },
  ]
  return made(async () => {
    const main = await componentEmbed({ binary: module, ...nothing })
    const adapters: [string, Uint8Array][] = []
    for (const { name, text, imports } of between)
      adapters.push([
        name,
        await componentEmbed({ binary: await parse(text), ...(imports === 'world' ? world : nothing) }),
      ])
    return componentNew(main, adapters)
  })
}

/** What the tools throw is about what they were given. */
async function made(make: () => Promise<Uint8Array>): Promise<Result<Uint8Array, string>> {
  try {
    return ok(await make())
  } catch (thrown) {
    const told = thrown instanceof Error ? thrown.message : String(thrown)
    return err(told.replace(/\s*\n\s*/g, ': '))
  }
}
