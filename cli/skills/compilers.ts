// Runs the author's compilers in the skill's folder: cargo for Rust, asc for AssemblyScript. If one
// is missing, the error names the command that installs it. Compilers get no COUNTERSIGN_
// variables.

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Trouble } from '../shell/command.ts'
import { trouble } from '../shell/command.ts'
import { childEnvironment } from '../shell/config.ts'
import type { Part } from './compile.ts'
import { findPackage, readPackageJson } from './javascript/package-json.ts'

/** The first build of a large Rust skill takes minutes. */
const COMPILE_MS = 10 * 60_000
const TARGET = 'wasm32-unknown-unknown'

/** The compiled module, and the language's library inside it, for the bill of materials. */
export type CompiledModule = { readonly module: Uint8Array; readonly library: Part }
type ProgramResult = {
  readonly code: number | null
  readonly out: string
  readonly err: string
  readonly missing: boolean
}

function runProgram(folder: string, program: string, args: readonly string[]): ProgramResult {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: folder,
    env: childEnvironment(),
    encoding: 'utf8',
    timeout: COMPILE_MS,
    maxBuffer: 16 * 1024 * 1024,
  })
  const missing = error !== undefined && 'code' in error && error.code === 'ENOENT'
  return { code: status, out: stdout ?? '', err: stderr ?? '', missing }
}

const compileError = (name: string, { out, err: errors }: ProgramResult) =>
  err(trouble('build_failed', `${name} could not compile the skill:\n${`${out}${errors}`.trim()}`))

const RUST_ADVICE = `install Rust and its WebAssembly target: \`rustup target add ${TARGET}\`, or on Debian \`apt install cargo libstd-rust-dev-wasm32 lld-14\``

export function compileRust(folder: string): Result<CompiledModule, Trouble> {
  const version = runProgram(folder, 'rustc', ['--version'])
  const cargo = runProgram(folder, 'cargo', ['--version'])
  if (version.missing || cargo.missing)
    return err(trouble('toolchain_missing', 'cargo or rustc is not installed', RUST_ADVICE))
  const std = runProgram(folder, 'rustc', ['--print', 'target-libdir', '--target', TARGET])
  if (std.code !== 0 || !existsSync(std.out.trim()))
    return err(trouble('toolchain_missing', `rustc has no standard library for ${TARGET}`, RUST_ADVICE))
  const target = resolve(folder, 'dist', 'rust')
  const built = runProgram(folder, 'cargo', [
    'build',
    '--release',
    '--target',
    TARGET,
    '--target-dir',
    target,
    '--message-format',
    'json-render-diagnostics',
  ])
  if (built.code !== 0) return compileError('cargo', built)
  const file = built.out.split('\n').flatMap(wasmFileIn).at(-1)
  if (file === undefined)
    return err(
      trouble(
        'build_failed',
        'cargo built no WebAssembly module: add `crate-type = ["cdylib"]` under [lib] in Cargo.toml',
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

/** Cargo reports each artifact as one line of JSON. */
function wasmFileIn(line: string): string[] {
  if (!line.startsWith('{')) return []
  const { filenames } = JSON.parse(line) as { filenames?: unknown }
  return Array.isArray(filenames)
    ? filenames.filter((name) => typeof name === 'string' && name.endsWith('.wasm'))
    : []
}

export function compileAssemblyScript(folder: string, main: string): Result<CompiledModule, Trouble> {
  const found = findAsc(folder)
  if (found === undefined)
    return err(
      trouble(
        'toolchain_missing',
        'the AssemblyScript compiler is not installed',
        `\`npm install --prefix ${folder}\` installs it, because it is in the skill’s package.json`,
      ),
    )
  const out = resolve(folder, 'dist', 'assembly.wasm')
  const built = runProgram(folder, process.execPath, [found.path, main, '--outFile', out, ...ASC_FLAGS])
  if (built.code !== 0) return compileError('asc', built)
  const module = readFileSync(out)
  rmSync(out)
  const { version, license } = found
  return ok({
    module,
    library: { name: 'assemblyscript', version, purl: `pkg:npm/assemblyscript@${version}`, license },
  })
}

/** `abort` compiles to a trap, so that the module needs no import for it. */
const ASC_FLAGS = ['--optimize', '--use', 'abort='] as const

/** The compiler installed in the skill's folder, or else the one installed with this command. */
function findAsc(folder: string): { path: string; version: string; license: string | undefined } | undefined {
  const root =
    findPackage(resolve(folder), 'assemblyscript') ?? findPackage(import.meta.dirname, 'assemblyscript')
  if (root === undefined) return undefined
  const { version, license } = readPackageJson(join(root, 'package.json'))
  return { path: join(root, 'bin/asc.js'), version, license }
}
