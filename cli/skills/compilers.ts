// Compilers of an author's own, which the command line starts in the skill's folder: cargo for Rust, asc for AssemblyScript. What is missing
// is told with the command that gets it. It keeps nothing of the edge in their environment.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { surroundings } from '../shell/config.ts'
import type { Part } from './compile.ts'
import { installed, readPackageJson } from './javascript/package-json.ts'

/** A first build of much Rust takes minutes. */
const COMPILE_MS = 10 * 60_000
const TARGET = 'wasm32-unknown-unknown'

/** A module, and what of its language goes along in it. */
export type Compiled = { readonly module: Uint8Array; readonly library: Part }
type Ran = {
  readonly code: number | null
  readonly out: string
  readonly err: string
  readonly missing: boolean
}

function ran(folder: string, program: string, args: readonly string[]): Ran {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: folder,
    env: surroundings(),
    encoding: 'utf8',
    timeout: COMPILE_MS,
    maxBuffer: 16 * 1024 * 1024,
  })
  const missing = error !== undefined && 'code' in error && error.code === 'ENOENT'
  return { code: status, out: stdout ?? '', err: stderr ?? '', missing }
}

const failed = (name: string, { out, err: said }: Ran) =>
  err(trouble('build_failed', `${name} did not compile it:\n${`${out}${said}`.trim()}`))

const GET_RUST = `install Rust and its WebAssembly target: \`rustup target add ${TARGET}\`, or on Debian \`apt install cargo libstd-rust-dev-wasm32 lld-14\``

export function compileRust(folder: string): Result<Compiled, Trouble> {
  const version = ran(folder, 'rustc', ['--version'])
  const cargo = ran(folder, 'cargo', ['--version'])
  if (version.missing || cargo.missing)
    return err(trouble('toolchain_missing', 'there is no cargo or rustc here', GET_RUST))
  const std = ran(folder, 'rustc', ['--print', 'target-libdir', '--target', TARGET])
  if (std.code !== 0 || !existsSync(std.out.trim()))
    return err(trouble('toolchain_missing', `rustc has no standard library for ${TARGET}`, GET_RUST))
  const target = resolve(folder, 'dist', 'rust')
  const built = ran(folder, 'cargo', [
    'build',
    '--release',
    '--target',
    TARGET,
    '--target-dir',
    target,
    '--message-format',
    'json-render-diagnostics',
  ])
  if (built.code !== 0) return failed('cargo', built)
  const file = built.out.split('\n').flatMap(wasmFileIn).at(-1)
  if (file === undefined)
    return err(
      trouble(
        'build_failed',
        'cargo built no module: Cargo.toml needs `crate-type = ["cdylib"]` under [lib]',
      ),
    )
  const release = version.out.trim().replace(/^rustc ([\w.-]+).*$/s, '$1')
  const library = {
    name: 'rust-std',
    version: release,
    purl: `pkg:generic/rust-std@${release}`,
    license: 'MIT OR Apache-2.0',
  }
  return ok({ module: readFileSync(file), library })
}

/** Cargo tells what it made in a line of JSON each. */
function wasmFileIn(line: string): string[] {
  if (!line.startsWith('{')) return []
  const { filenames } = JSON.parse(line) as { filenames?: unknown }
  return Array.isArray(filenames)
    ? filenames.filter((name) => typeof name === 'string' && name.endsWith('.wasm'))
    : []
}

export function compileAssemblyScript(folder: string, main: string): Result<Compiled, Trouble> {
  const found = ascFor(folder)
  if (found === undefined)
    return err(
      trouble(
        'toolchain_missing',
        'there is no AssemblyScript here',
        `\`npm install --prefix ${folder}\`: its package.json names it`,
      ),
    )
  const out = resolve(folder, 'dist', 'assembly.wasm')
  const built = ran(folder, process.execPath, [found.path, main, '--outFile', out, ...ASC])
  if (built.code !== 0) return failed('asc', built)
  const module = readFileSync(out)
  rmSync(out)
  const { version, license } = found
  return ok({
    module,
    library: { name: 'assemblyscript', version, purl: `pkg:npm/assemblyscript@${version}`, license },
  })
}

/** What would abort traps, with nothing imported for it. */
const ASC = ['--optimize', '--use', 'abort='] as const

/** The folder's own, or else the one that lies beside us. */
function ascFor(folder: string): { path: string; version: string; license: string | undefined } | undefined {
  const root =
    installed(resolve(folder), 'assemblyscript') ?? installed(import.meta.dirname, 'assemblyscript')
  if (root === undefined) return undefined
  const { version, license } = readPackageJson(join(root, 'package.json'))
  return { path: join(root, 'bin/asc.js'), version, license }
}
