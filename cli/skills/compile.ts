// From a skill's folder to its component, and what went into it: each source and each tool by digest or version, for the bill of materials
// and the provenance. The same folder and tools make the same bytes.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { capabilitiesIn } from '../../shared/wire/skills.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { fromJavaScript } from './compile-javascript.ts'
import { compileAssemblyScript, compileRust } from './compilers.ts'
import { componentOf } from './component.ts'
import { Sources } from './javascript/module-graph.ts'
import { readPackageJson } from './javascript/package-json.ts'
import { engineModule } from './javascript/quickjs.ts'
import { cratesIn, type SkillFolder, sourcesIn, TOML } from './source-folder.ts'

/** Something of somebody else's that is in the component: an engine, a standard library, packages. */
export type Part = {
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly license?: string | undefined
  readonly sha256?: string | undefined
}
/** An author's own file, by its path in the folder. */
export type Source = { readonly path: string; readonly sha256: string }
export type Made = {
  readonly component: Uint8Array
  readonly sources: readonly Source[]
  readonly parts: readonly Part[]
}

const BUILT = ['dist', 'node_modules', 'target']

export async function make(skill: SkillFolder): Promise<Result<Made, Trouble>> {
  const made = await making[skill.language](skill)
  if (!made.ok) return made
  const { byteLength } = made.value.component
  if (byteLength > LIMITS.skill_component_bytes)
    return err(
      trouble(
        'build_failed',
        `the component has ${byteLength} bytes; ${LIMITS.skill_component_bytes} are the most`,
      ),
    )
  const sources = [{ path: TOML, sha256: sha256(skill.toml) }, ...made.value.sources]
  return ok({ ...made.value, sources })
}

const making: Readonly<
  Record<SkillFolder['language'], (skill: SkillFolder) => Promise<Result<Made, Trouble>>>
> = {
  async javascript({ folder, main, manifest }) {
    const sources = new Sources(folder, main)
    const component = await fromJavaScript(main, sources, capabilitiesIn(manifest))
    if (!component.ok) return err(trouble('build_failed', component.error))
    const own = sources.all.flatMap(({ path, sha256, of }) => (of === undefined ? [{ path, sha256 }] : []))
    const packages = sources.all.flatMap(({ sha256, of }) => (of === undefined ? [] : [{ ...of, sha256 }]))
    return ok({ component: component.value, sources: own, parts: [engine(), ...byPackage(packages)] })
  },

  async assemblyscript({ folder, main, manifest }) {
    const compiled = compileAssemblyScript(folder, main)
    return compiled.ok
      ? around(compiled.value.module, folder, capabilitiesIn(manifest), [compiled.value.library])
      : compiled
  },

  async rust({ folder, manifest }) {
    const compiled = compileRust(folder)
    if (!compiled.ok) return compiled
    const crates = cratesIn(folder)
    return crates.ok
      ? around(compiled.value.module, folder, capabilitiesIn(manifest), [
          compiled.value.library,
          ...crates.value,
        ])
      : crates
  },

  async component({ folder, main }) {
    const component = readBytes(join(folder, main), LIMITS.skill_component_bytes)
    return component.ok
      ? ok({
          component: component.value,
          sources: [{ path: main, sha256: sha256(component.value) }],
          parts: [],
        })
      : component
  },
}

/** A core module that a compiler made of all that lies in the folder. */
async function around(
  module: Uint8Array,
  folder: string,
  granted: readonly SkillCapability[],
  parts: readonly Part[],
): Promise<Result<Made, Trouble>> {
  const component = await componentOf(module, granted)
  if (!component.ok)
    return err(
      trouble(
        'build_failed',
        `the module is not of the world: ${component.error}`,
        'name under [capabilities] what it imports',
      ),
    )
  const paths = sourcesIn(folder, BUILT)
  if (!paths.ok) return paths
  const sources: Source[] = []
  for (const path of paths.value.filter((one) => one !== TOML)) {
    const bytes = readBytes(join(folder, path), LIMITS.skill_package_bytes)
    if (!bytes.ok) return bytes
    sources.push({ path, sha256: sha256(bytes.value) })
  }
  return ok({ component: component.value, sources, parts })
}

const npm = (name: string, version: string): string => `pkg:npm/${name.replace(/^@/, '%40')}@${version}`

function engine(): Part {
  const { name, version, license } = readPackageJson(
    join(createRequire(import.meta.url).resolve('quickjs-wasi/quickjs.wasm'), '../package.json'),
  )
  return { name, version, purl: npm(name, version), license, sha256: sha256(engineModule()) }
}

/** One part for each package, by the digest of its modules that were read. */
function byPackage(
  files: readonly { name: string; version: string; license?: string | undefined; sha256: string }[],
): Part[] {
  const found = new Map<string, Part & { digests: string[] }>()
  for (const { name, version, license, sha256 } of files) {
    const id = `${name}@${version}`
    const part = found.get(id) ?? { name, version, purl: npm(name, version), license, digests: [] }
    part.digests.push(sha256)
    found.set(id, part)
  }
  return [...found.values()].map(({ digests, ...part }) => ({ ...part, sha256: sha256(digests.join('\n')) }))
}
