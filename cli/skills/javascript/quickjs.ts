// Runs QuickJS while a skill is built: evaluates the prelude and the author's modules in a new
// instance and takes a snapshot of its memory. Clock and randomness are fixed, so that the same
// sources give the same image, byte for byte.

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { EvalFlags, type HostFunction, JSException, type JSValueHandle, QuickJS } from 'quickjs-wasi'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import { type Addresses, importsOf, NATIVE } from './canonical-abi-wat.ts'
import type { Snapshot } from './memory-image.ts'

export type Modules = {
  /** Resolves `specifier` in `importer` to a module name; throws `SourceError` if it can't. */
  readonly resolve: (importer: string, specifier: string) => string
  readonly source: (name: string) => string
  /** The file, line and column of the import. */
  readonly placeOf: (importer: string, specifier: string) => string
}
export type EvaluatedModules = { readonly snapshot: Snapshot; readonly at: Addresses }

const WORLD = 'countersign:skill'
/** Less than the isolate's stack, so that deep recursion is a JavaScript error and not a trap. */
const STACK_BYTES = 256 * 1024
/** A fault in the author's sources, as one sentence. `evaluate` returns it as its error. */
export class SourceError extends Error {}

const isWorld = (specifier: string): boolean => specifier.startsWith(`${WORLD}/`)
const grantedAs = (specifier: string, granted: readonly SkillCapability[]): SkillCapability | undefined =>
  granted.find((capability) => specifier === `${WORLD}/${capability}`)

/** A WASI host whose clock stays at zero and whose random bytes are zeros. */
const deterministicWasi = (memory: { readonly buffer: ArrayBuffer }) => ({
  clock_time_get(_clock: number, _precision: bigint, at: number): number {
    new DataView(memory.buffer).setBigUint64(at, 0n, true)
    return 0
  },
  random_get(at: number, length: number): number {
    new Uint8Array(memory.buffer).fill(0, at, at + length)
    return 0
  },
})

/** The engine's module from its npm package. */
export const engineModule = (): Uint8Array =>
  readFileSync(createRequire(import.meta.url).resolve('quickjs-wasi/quickjs.wasm'))

/**
 * Evaluates `main` and everything that it imports. The error is one sentence for the author, with
 * its place.
 */
export async function evaluate(
  main: string,
  modules: Modules,
  granted: readonly SkillCapability[],
): Promise<Result<EvaluatedModules, string>> {
  const vm = await QuickJS.create({
    wasm: new Uint8Array(engineModule()),
    wasi: deterministicWasi,
    timezoneOffset: 0,
    maxStackSize: STACK_BYTES,
    moduleLoader: {
      normalize: (importer: string, specifier: string) => {
        if (!isWorld(specifier)) return modules.resolve(importer, specifier)
        if (grantedAs(specifier, granted) !== undefined) return specifier
        throw new SourceError(`${modules.placeOf(importer, specifier)}: ${notGranted(specifier)}`)
      },
      load: (name: string) => (isWorld(name) ? worldModule(name, granted) : modules.source(name)),
    },
  })
  try {
    return ok(await takeImage(vm, main, modules, granted))
  } catch (thrown) {
    if (thrown instanceof JSException) return err(errorText(thrown))
    if (thrown instanceof SourceError) return err(thrown.message)
    throw thrown
  }
}

async function takeImage(
  vm: QuickJS,
  main: string,
  modules: Modules,
  granted: readonly SkillCapability[],
): Promise<EvaluatedModules> {
  const prelude = await evaluateModule(
    vm,
    'prelude.js',
    readFileSync(join(import.meta.dirname, 'prelude.js'), 'utf8'),
  )
  const of = (object: JSValueHandle, name: string): JSValueHandle => vm.getProp(object, vm.newString(name))
  const lists = [granted, importsOf(granted)].map((list) => vm.hostToHandle(list))
  const symbol = vm.newSymbolFor(WORLD)
  vm.setProp(
    vm.global,
    symbol,
    vm.callFunction(of(prelude, 'begin'), vm.undefined, buildTimeNatives(vm), ...lists),
  )
  const namespace = await evaluateModule(vm, main, modules.source(main))
  vm.setProp(vm.global, symbol, vm.undefined)
  const entry = vm.callFunction(of(prelude, 'entry'), vm.undefined, namespace)
  const [run, end] = [vm.exportHandle(of(entry, 'run')), vm.exportHandle(of(entry, 'end'))]
  const at = { run, end, undefined: vm.exportHandle(vm.getUndefined()) }
  vm.runGC()
  const { memory, stackPointer, contextPtr } = vm.snapshot()
  return { snapshot: { memory, stack: stackPointer }, at: { ...at, context: contextPtr } }
}

/** Evaluates a module with everything that it imports, and returns its exports. */
async function evaluateModule(vm: QuickJS, name: string, source: string): Promise<JSValueHandle> {
  const evaluating = vm.evalCode(source, name, EvalFlags.TYPE_MODULE)
  vm.executePendingJobs()
  const settled = await Promise.race([vm.resolvePromise(evaluating), 'pending' as const])
  if (settled === 'pending')
    throw new SourceError(`\`${name}\` awaits a promise that never settles while the skill is built`)
  if ('error' in settled) throw new JSException(settled.error)
  return settled.value
}

/**
 * The native functions of the prelude. While a skill is built, the ones that call the host throw.
 */
function buildTimeNatives(vm: QuickJS): JSValueHandle {
  const nobody: HostFunction = () => {
    throw new Error('the host can’t be called while the skill is built')
  }
  const functions: Readonly<Record<keyof typeof NATIVE, HostFunction>> = {
    utf8: (value) => vm.newUint8Array(new TextEncoder().encode(value?.toString())),
    text: (value) => vm.newString(new TextDecoder().decode(value?.toUint8Array())),
    address: nobody,
    take: nobody,
    call: nobody,
  }
  const made = vm.newObject()
  for (const [name, does] of Object.entries(functions))
    vm.setProp(made, name, vm.newFunction(NATIVE[name as keyof typeof NATIVE], does)) // the keys of the record above
  return made
}

/** The source of the module for one interface of the world. */
function worldModule(name: string, granted: readonly SkillCapability[]): string {
  const capability = grantedAs(name, granted)
  if (capability === undefined) throw new Error(notGranted(name)) // `normalize` has already refused it
  const functions = importsOf([capability]).map((one) => one.slice(capability.length + 1))
  const own = functions.map((one) => `${one}_ as ${one}`)
  return `const world = globalThis[Symbol.for('${WORLD}')].${capability}
${functions.map((one) => `const ${one}_ = world.${one}`).join('\n')}
export { ${own.join(', ')} }`
}

function notGranted(name: string): string {
  const known = SkillCapability.options.find((one) => name === `${WORLD}/${one}`)
  return known === undefined
    ? `there is no \`${name}\`; a skill can import ${SkillCapability.options.map((one) => `\`${WORLD}/${one}\``).join(', ')}`
    : `\`${name}\` needs \`${known === 'channel' ? 'channels' : known}\` under [capabilities] in skill.toml`
}

/** Stack frames with these names are the host's, not the author's. */
const HOST_FILES = /^(?:file:|node:|\/)/

/**
 * The engine's message with the author's topmost stack frame. Our own errors already contain their
 * place.
 */
function errorText({ name, message, stack }: JSException): string {
  const places = [...(stack ?? '').matchAll(/([^()\s]+:\d+(?::\d+)?)\)?$/gm)].map(([, one = '']) => one)
  const place = places.find((one) => !HOST_FILES.test(one))
  return `${place === undefined ? '' : `${place}: `}${name === 'Error' ? '' : `${name}: `}${message}`
}
