// JavaScript skills for tests and benchmarks, built with the authors' tools, once per source text
// and process.

import { compileJavaScript } from '../../../cli/skills/compile-javascript.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'

const built = new Map<string, Promise<Uint8Array>>()

/** The component for a module that exports `run` and may import the granted interfaces. */
export function javaScriptSkill(
  source: string,
  granted: readonly SkillCapability[] = [],
): Promise<Uint8Array> {
  const name = JSON.stringify([source, granted])
  const made = built.get(name) ?? build(source, granted)
  built.set(name, made)
  return made
}

async function build(source: string, granted: readonly SkillCapability[]): Promise<Uint8Array> {
  const nothingElse = (importer: string, specifier: string): never => {
    throw new Error(`\`${importer}\` imports \`${specifier}\`, and is alone`)
  }
  const component = await compileJavaScript(
    'skill.js',
    { resolve: nothingElse, source: () => source, placeOf: (importer) => importer },
    granted,
  )
  if (!component.ok) throw new Error(component.error)
  return component.value
}
