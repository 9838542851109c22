// Reads package.json files: enough to find a package's modules and to name it in a bill of
// materials.

import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { SourceError } from './quickjs.ts'

type Target = string | null | readonly Target[] | { readonly [condition: string]: Target }
const Target: z.ZodType<Target> = z.lazy(() =>
  z.union([z.string(), z.null(), z.array(Target), z.record(z.string(), Target)]),
)
const PackageJson = z.object({
  name: z.string().min(1),
  version: z.string().min(1),
  license: z.string().optional(),
  type: z.string().optional(),
  module: z.string().optional(),
  main: z.string().optional(),
  exports: Target.optional(),
})
export type PackageJson = z.infer<typeof PackageJson>

export function readPackageJson(path: string): PackageJson {
  const read = PackageJson.safeParse(parseLenient(path))
  if (!read.success)
    throw new SourceError(`\`${path}\` is not a valid package.json: it needs a name and a version`)
  return read.data
}

/** Parsed leniently, as npm does. */
function parseLenient(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * The folder of an installed package, resolved like Node does: in the nearest `node_modules` that
 * has it.
 */
export function findPackage(from: string, name: string): string | undefined {
  const folder = join(from, 'node_modules', name)
  if (existsSync(join(folder, 'package.json'))) return realpathSync(folder)
  return from === dirname(from) ? undefined : findPackage(dirname(from), name)
}

/** The conditions that we accept; the package's own order decides between them. */
const CONDITIONS: ReadonlySet<string> = new Set(['import', 'module', 'default'])

/** The file that a package exports as `.` or `./inside`. */
export function entryOf({ exports, module, main }: PackageJson, inside: string): string | undefined {
  if (exports === undefined) return inside === '.' ? (module ?? main ?? 'index.js') : inside
  const byPath = isRecord(exports) && Object.keys(exports).some((one) => one.startsWith('.'))
  return resolveTarget(byPath ? exports[inside] : inside === '.' ? exports : undefined)
}

const isRecord = (target: Target): target is { readonly [condition: string]: Target } =>
  typeof target === 'object' && target !== null && !Array.isArray(target)

function resolveTarget(target: Target | undefined): string | undefined {
  if (target === undefined || target === null) return undefined
  if (typeof target === 'string') return target
  const choices = isRecord(target)
    ? Object.entries(target).flatMap(([condition, then]) => (CONDITIONS.has(condition) ? [then] : []))
    : target
  return choices.map(resolveTarget).find((one) => one !== undefined)
}

/** Whether the file is an ES module or JSON; a skill can use nothing else. */
export const isModule = (file: string, { type }: PackageJson): boolean =>
  file.endsWith('.mjs') || file.endsWith('.json') || (type === 'module' && file.endsWith('.js'))
