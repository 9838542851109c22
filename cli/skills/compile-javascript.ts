// Builds a skill written in JavaScript or TypeScript: evaluates its modules in QuickJS and makes
// one component of the engine and its memory.

import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err } from '../../shared/result.ts'
import { componentAround } from './component.ts'
import { canonicalAbiWat, ENGINE_EXPORTS, NO_WASI } from './javascript/canonical-abi-wat.ts'
import { withImage } from './javascript/memory-image.ts'
import { engineModule, evaluate, type Modules } from './javascript/quickjs.ts'

export async function compileJavaScript(
  main: string,
  modules: Modules,
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  const image = await evaluate(main, modules, granted)
  if (!image.ok) return image
  const { snapshot, at } = image.value
  const between = [
    { name: 'env', text: canonicalAbiWat(granted, at), imports: 'world' },
    { name: 'wasi_snapshot_preview1', text: NO_WASI, imports: 'nothing' },
  ] as const
  const component = await componentAround(
    withImage(engineModule(), snapshot, ENGINE_EXPORTS),
    between,
    granted,
  )
  return component.ok ? component : err(`the component can’t be assembled: ${component.error}`)
}
