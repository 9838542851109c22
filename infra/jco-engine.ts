// Patches jco's bindgen component so that a Worker can load it: its core modules become files
// beside it, because a Worker compiles no code at run time, and each use gets a new instance.
// Wrangler runs this before it bundles the transpiler (wrangler.transpiler.toml). Fails if the
// package no longer contains the patched text.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { ROOT } from './state.ts'

const source = createRequire(import.meta.url).resolve('@bytecodealliance/jco-transpile/component')
const folder = join(ROOT, 'node_modules/.cache/countersign/bindgen')
const imports: string[] = []
const text = readFileSync(source, 'utf8')
  .replace(
    /const (module\d+) = (?:fetchCompile\(new URL\('\.\/([\w.-]+)', import\.meta\.url\)\)|base64Compile\('([\w+/=]+)'\));/g,
    liftModule,
  )
  .replace(
    ...replacement(
      'const instantiateCore = WebAssembly.instantiate;',
      'const instantiateCore = (module, imports) => new WebAssembly.Instance(module, imports);',
    ),
  )
  .replace(...replacement('export const $init = (() => {', 'export const start = () => {'))
  .replace(/(return promise \|\| maybeSyncReturn;\n\})\)\(\);\n\nexport \{/, '$1;\n\nexport {')

mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'bindgen.js'), `${imports.join('')}${checkPatched(text)}`)

function liftModule(_: string, name: string, file: string | undefined, base64: string | undefined): string {
  const bytes =
    file === undefined ? Buffer.from(base64 ?? '', 'base64') : readFileSync(join(dirname(source), file))
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.wasm`), bytes)
  imports.push(`import ${name} from './${name}.wasm';\n`)
  return ''
}

function replacement(from: string, to: string): [string, () => string] {
  return [from, () => to]
}

/**
 * Fails if a replacement did not apply: then a new version of the package must be looked at first.
 */
function checkPatched(changed: string): string {
  const stale = [
    'fetchCompile(new',
    "base64Compile('",
    '$init =',
    'WebAssembly.instantiate;',
    '})();\n\nexport',
  ].find((left) => changed.includes(left))
  if (imports.length !== 4 || stale !== undefined)
    throw new Error(
      `jco's bindgen has changed, so this patch must be adapted: ${imports.length} modules, \`${stale}\``,
    )
  return changed
}
