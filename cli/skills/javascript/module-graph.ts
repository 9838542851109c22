// The module graph of a JavaScript or TypeScript skill: resolves and reads modules of its folder
// and its installed packages, strips types, and records every file for the bill of materials. Reads
// no other file of the machine.

import { readFileSync, realpathSync, statSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { sha256 } from '../../../shared/bytes/json.ts'
import { reason } from '../../shell/files.ts'
import { entryOf, findPackage, isModule, type PackageJson, readPackageJson } from './package-json.ts'
import { type Modules, SourceError } from './quickjs.ts'

/** A file that was read, by its path within the folder or within its package. */
export type SourceFile = { readonly path: string; readonly sha256: string; readonly of?: PackageJson }

type Root = { readonly folder: string; readonly about?: PackageJson }
type Module = { readonly file: string; readonly root: Root }

export class ModuleGraph implements Modules {
  readonly #own: Root
  /** By name; names contain no path of this machine, so that builds are reproducible. */
  readonly #modules = new Map<string, Module>()
  readonly #read = new Map<string, SourceFile>()

  constructor(folder: string, main: string) {
    this.#own = { folder: realpathSync(folder) }
    this.#modules.set(main, { file: join(this.#own.folder, main), root: this.#own })
  }

  get all(): SourceFile[] {
    return [...this.#read.keys()].sort().flatMap((name) => this.#read.get(name) ?? [])
  }

  resolve(importer: string, specifier: string): string {
    const from = this.#modules.get(importer)
    if (from === undefined)
      throw new SourceError(`\`${importer}\` imports \`${specifier}\`, but is not a module of the skill`)
    const why = (what: string): SourceError =>
      new SourceError(`${this.placeOf(importer, specifier)}: \`${importer}\` imports \`${specifier}\`${what}`)
    if (/^\.\.?\//.test(specifier)) return this.#file(resolve(dirname(from.file), specifier), from.root, why)
    if (specifier.startsWith('/') || /^[a-z]+:/.test(specifier))
      throw why('; a skill can only import its own files, installed packages and `countersign:skill/…`')
    const root = packageOf(dirname(from.file), specifier)
    if (root === undefined) throw why(', which is not installed; install it with npm in the skill’s folder')
    const inside = specifier.slice(root.about.name.length + 1)
    const entry = entryOf(root.about, inside === '' ? '.' : `./${inside}`)
    if (entry === undefined) throw why(', which its package does not export as a module')
    return this.#file(resolve(root.folder, entry), root, why)
  }

  /** The file, line and column where `importer` imports `specifier`. */
  placeOf(importer: string, specifier: string): string {
    const from = this.#modules.get(importer)
    const text = from === undefined ? '' : bytesOf(importer, from.file).toString('utf8')
    const found = new RegExp(`\\b(?:import|export)\\b[^;'"]*(['"])${RegExp.escape(specifier)}\\1`).exec(text)
    const lines = text.slice(0, found?.index ?? 0).split('\n')
    return `${importer}:${lines.length}:${(lines.at(-1) ?? '').length + 1}`
  }

  source(name: string): string {
    const module = this.#modules.get(name)
    if (module === undefined) throw new SourceError(`there is no module \`${name}\``)
    const bytes = bytesOf(name, module.file)
    const { folder, about } = module.root
    this.#read.set(name, {
      path: relative(folder, module.file),
      sha256: sha256(bytes),
      ...(about === undefined ? {} : { of: about }),
    })
    const text = bytes.toString('utf8')
    if (name.endsWith('.json')) return `export default ${text}`
    return name.endsWith('.ts') ? stripTypes(name, text) : text
  }

  #file(path: string, root: Root, why: (what: string) => SourceError): string {
    const found = [path, path.replace(/\.js$/, '.ts')].find((one) =>
      statSync(one, { throwIfNoEntry: false })?.isFile(),
    )
    if (found === undefined) throw why(', but there is no such file')
    const file = realpathSync(found)
    const within = relative(root.folder, file)
    if (within.startsWith('..'))
      throw why(`, which is outside ${root.about === undefined ? 'the skill’s folder' : 'its package'}`)
    if (root.about !== undefined && !isModule(file, root.about))
      throw why(', which is CommonJS; bundle it into an ES module')
    const name = root.about === undefined ? within : `${root.about.name}@${root.about.version}/${within}`
    this.#modules.set(name, { file, root })
    return name
  }
}

function bytesOf(name: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (thrown) {
    throw new SourceError(`${name}:1:1: the file can’t be read: ${reason(thrown)}`, { cause: thrown })
  }
}

function packageOf(from: string, specifier: string): Required<Root> | undefined {
  const folder = findPackage(from, specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/'))
  return folder === undefined ? undefined : { folder, about: readPackageJson(join(folder, 'package.json')) }
}

/**
 * Replaces types by spaces, so that places stay the same. Suppresses Node's warning that this is
 * experimental.
 */
function stripTypes(name: string, text: string): string {
  const { emitWarning } = process
  process.emitWarning = () => undefined
  try {
    return stripTypeScriptTypes(text)
  } catch (thrown) {
    const lines = thrown instanceof Error ? (thrown.stack ?? '').split('\n') : []
    const line = /:(\d+)$/.exec(lines[0] ?? '')?.[1] ?? '1'
    const column = (lines.find((one) => /^ *\^+$/.test(one)) ?? '').indexOf('^') + 1
    throw new SourceError(`${name}:${line}:${column}: ${thrown instanceof Error ? thrown.message : thrown}`, {
      cause: thrown,
    })
  } finally {
    process.emitWarning = emitWarning
  }
}
