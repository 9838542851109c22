// A skill written in JavaScript or TypeScript: its modules, evaluated in an engine that goes along, as one component.

import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err } from '../../shared/result.ts'
import { componentAround } from './component.ts'
import { glue, NO_WASI, USED_OF_ENGINE } from './javascript/canonical-abi-wat.ts'
import { withImage } from './javascript/memory-image.ts'
import { engineModule, evaluated, type Modules } from './javascript/quickjs.ts'

export async function fromJavaScript(
  main: string,
  modules: Modules,
  granted: readonly SkillCapability[],
): Promise<Result<Uint8Array, string>> {
  const image = await evaluated(main, modules, granted)
  if (!image.ok) return image
  const { snapshot, at } = image.value
  const between = [
    { name: 'env', text: glue(granted, at), imports: 'world' },
    { name: 'wasi_snapshot_preview1', text: NO_WASI, imports: 'nothing' },
  ] as const
  const component = await componentAround(
    withImage(engineModule(), snapshot, USED_OF_ENGINE),
    between,
    granted,
  )
  return component.ok ? component : err(`the component does not fit together: ${component.error}`)
}
