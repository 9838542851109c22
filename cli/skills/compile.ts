// Compiles a skill's folder to its component and records the sources and parts that went into it,
// for the bill of materials and the provenance. The same folder and tools give the same bytes.

import { createRequire } from 'node:module'
import { join } from 'node:path'
import { sha256 } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { SkillCapability } from '../../shared/plan/plan.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { declaredCapabilities } from '../../shared/wire/skills.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { compileJavaScript } from './compile-javascript.ts'
import { compileAssemblyScript, compileRust } from './compilers.ts'
import { componentOf } from './component.ts'
import { ModuleGraph } from './javascript/module-graph.ts'
import { readPackageJson } from './javascript/package-json.ts'
import { engineModule } from './javascript/quickjs.ts'
import { cratesIn, type SkillFolder, sourcesIn, TOML } from './source-folder.ts'

/** Third-party code in the component: an engine, a standard library, a package. */
export type Part = {
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly license?: string | undefined
  readonly sha256?: string | undefined
}
/** A source file of the author, by its path in the folder. */
export type Source = { readonly path: string; readonly sha256: string }
export type BuiltComponent = {
  readonly component: Uint8Array
  readonly sources: readonly Source[]
  readonly parts: readonly Part[]
}

const BUILD_FOLDERS = ['dist', 'node_modules', 'target']

export async function compileSkill(skill: SkillFolder): Promise<Result<BuiltComponent, Trouble>> {
  const made = await COMPILERS[skill.language](skill)
  if (!made.ok) return made
  const { byteLength } = made.value.component
  if (byteLength > LIMITS.skill_component_bytes)
    return err(
      trouble(
        'build_failed',
        `the component has ${byteLength} bytes; the maximum is ${LIMITS.skill_component_bytes}`,
      ),
    )
  const sources = [{ path: TOML, sha256: sha256(skill.toml) }, ...made.value.sources]
  return ok({ ...made.value, sources })
}

const COMPILERS: Readonly<
  Record<SkillFolder['language'], (skill: SkillFolder) => Promise<Result<BuiltComponent, Trouble>>>
> = {
  async javascript({ folder, main, manifest }) {
    const sources = new ModuleGraph(folder, main)
    const component = await compileJavaScript(main, sources, declaredCapabilities(manifest))
    if (!component.ok) return err(trouble('build_failed', component.error))
    const own = sources.all.flatMap(({ path, sha256, of }) => (of === undefined ? [{ path, sha256 }] : []))
    const packages = sources.all.flatMap(({ sha256, of }) => (of === undefined ? [] : [{ ...of, sha256 }]))
    return ok({ component: component.value, sources: own, parts: [enginePart(), ...packageParts(packages)] })
  },

  async assemblyscript({ folder, main, manifest }) {
    const regular = sourcesIn(folder, BUILD_FOLDERS) // a symlink is refused before the compiler takes seconds
    if (!regular.ok) return regular
    const compiled = compileAssemblyScript(folder, main)
    return compiled.ok
      ? wrapModule(compiled.value.module, folder, declaredCapabilities(manifest), [compiled.value.library])
      : compiled
  },

  async rust({ folder, manifest }) {
    const compiled = compileRust(folder)
    if (!compiled.ok) return compiled
    const crates = cratesIn(folder)
    return crates.ok
      ? wrapModule(compiled.value.module, folder, declaredCapabilities(manifest), [
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

/** Wraps a compiled core module; all files of the folder count as its sources. */
async function wrapModule(
  module: Uint8Array,
  folder: string,
  granted: readonly SkillCapability[],
  parts: readonly Part[],
): Promise<Result<BuiltComponent, Trouble>> {
  const component = await componentOf(module, granted)
  if (!component.ok)
    return err(
      trouble(
        'build_failed',
        `the module does not fit the skill world: ${component.error}`,
        'list what it imports under [capabilities] in skill.toml',
      ),
    )
  const paths = sourcesIn(folder, BUILD_FOLDERS)
  if (!paths.ok) return paths
  const sources: Source[] = []
  for (const path of paths.value.filter((one) => one !== TOML)) {
    const bytes = readBytes(join(folder, path), LIMITS.skill_package_bytes)
    if (!bytes.ok) return bytes
    sources.push({ path, sha256: sha256(bytes.value) })
  }
  return ok({ component: component.value, sources, parts })
}

const npmUrl = (name: string, version: string): string => `pkg:npm/${name.replace(/^@/, '%40')}@${version}`

function enginePart(): Part {
  const { name, version, license } = readPackageJson(
    join(createRequire(import.meta.url).resolve('quickjs-wasi/quickjs.wasm'), '../package.json'),
  )
  return { name, version, purl: npmUrl(name, version), license, sha256: sha256(engineModule()) }
}

/** One part per package, with a digest over those of its modules that are used. */
function packageParts(
  files: readonly { name: string; version: string; license?: string | undefined; sha256: string }[],
): Part[] {
  const found = new Map<string, Part & { digests: string[] }>()
  for (const { name, version, license, sha256 } of files) {
    const id = `${name}@${version}`
    const part = found.get(id) ?? { name, version, purl: npmUrl(name, version), license, digests: [] }
    part.digests.push(sha256)
    found.set(id, part)
  }
  return [...found.values()].map(({ digests, ...part }) => ({ ...part, sha256: sha256(digests.join('\n')) }))
}
