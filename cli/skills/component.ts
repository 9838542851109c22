// Makes a component of the skill world from a core WebAssembly module. The component imports
// exactly the capabilities that the manifest grants. The only file that uses wasm-tools.

import { componentEmbed, componentNew, parse } from '@bytecodealliance/jco-transpile/wasm-tools'
import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { WORLD } from '../../shared/wire/skill-world.ts'

/**
 * An adapter module between the main module and the world, under the name by which the main module
 * imports it.
 */
export type AdapterModule = {
  readonly name: string
  readonly text: string
  readonly imports: 'world' | 'nothing'
}

const EMPTY_WORLD = 'package countersign:engine; world nothing {}'

const worldOf = (granted: readonly SkillCapability[]): string =>
  WORLD.replace(/^ {2}import ([a-z]+);\n/gm, (line, name) =>
    granted.some((one) => one === name) ? line : '',
  )

/** Wraps a module that itself imports and exports the world's functions. */
export async function componentOf(
  module: Uint8Array,
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  return asResult(async () =>
    componentNew(await componentEmbed({ binary: module, witSource: worldOf(granted), world: 'skill' }), []),
  )
}

/** Wraps a module that does not know the world, together with the adapters in between. */
export async function componentAround(
  module: Uint8Array,
  between: readonly AdapterModule[],
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  const [world, nothing] = [
    { witSource: worldOf(granted), world: 'skill' },
    { witSource: EMPTY_WORLD, world: 'nothing' },
  ]
  return asResult(async () => {
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

/** Every exception of the tools is about their input, so it becomes an error value, on one line. */
async function asResult(make: () => Promise<Uint8Array>): Promise<Result<Uint8Array, string>> {
  try {
    return ok(await make())
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    return err(message.replace(/\s*\n\s*/g, ': '))
  }
}
