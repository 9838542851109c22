// The harness that runs beside a skill in its isolate, as source text for the platform's loader. It
// makes a fresh instance for each call, accounts for fuel, and implements the capabilities that the
// call was granted. The isolate has no network and no bindings; a call brings all it may use. A
// skill that escapes WebAssembly controls the harness, so the edge treats its answers as untrusted.

import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../shared/limits.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import { FUEL_ACCOUNTING } from './isolate-fuel.ts'

/** Source text, because the isolate can't import our modules. */
const harness = (modules: readonly string[]): string => `
import { WorkerEntrypoint } from 'cloudflare:workers'
import { instantiate } from './component.js'
${modules.map((name, index) => `import module${index} from './${name}'`).join('\n')}
const MODULES = new Map([${modules.map((name, index) => `[${JSON.stringify(name)}, module${index}]`).join(', ')}])

class Refused extends Error {}
/** The error case of a function's \`result\`. */
class Failed {
  constructor(payload) { this.payload = payload }
}

${FUEL_ACCOUNTING}
export default class extends WorkerEntrypoint {
  async call({ tool, input, fuel, granted, now, random }, edge) {
    const account = new FuelAccount(fuel, async () => {
      if (!('value' in (await edge.more()))) throw new Refused('the call is over')
    })
    const hostCalls = {}
    const memories = new Set()
    const instantiated = new Set()
    let log = ''
    let drawn = 0
    let refused
    const refuse = (why) => {
      refused = why
      throw new Refused(why)
    }
    const pay = (bytes) => account.pay(${LIMITS.skill_host_call_fuel} + bytes)
    const countHostCall = (name, bytes) => {
      hostCalls[name] = (hostCalls[name] ?? 0) + 1
      pay(bytes)
    }
    /**
     * Rejects oversized requests here: the host would otherwise buffer them before it could refuse.
     */
    const beginRequest = (name, bytes, most = ${LIMITS.skill_asked_bytes}) => {
      countHostCall(name, bytes)
      if (bytes > most) throw new Failed('the arguments have ' + bytes + ' bytes; the limit is ' + most)
    }
    const valueOf = async (answering) => {
      const answer = await answering
      account.resumed()
      await account.yieldIfDue()
      if ('denied' in answer) refuse(answer.denied)
      if ('error' in answer) throw new Failed(answer.error)
      return answer.value
    }
    const all = {
      log: {
        write(level, text) {
          countHostCall('log.write', level.length + text.length)
          log += (level + ': ' + text + '\\n').slice(0, Math.max(0, ${LIMITS.skill_log_chars + LIMITS.skill_log_spare_chars} - log.length))
        },
      },
      clock: {
        now() {
          countHostCall('clock.now', 0)
          return BigInt(now)
        },
      },
      random: {
        bytes(count) {
          countHostCall('random.bytes', count)
          if (count > 65536) throw new Refused('it asked for more than 65,536 random bytes at once')
          return random === undefined ? crypto.getRandomValues(new Uint8Array(count)) : Uint8Array.from({ length: count }, () => random[drawn++ % random.length])
        },
      },
      http: {
        async request(method, url, headers, body) {
          beginRequest('http.request', method.length + url.length + headers.length + body.byteLength, ${LIMITS.skill_asked_bytes + MAX_SKILL_LIMITS.net_bytes})
          const response = await valueOf(edge.request({ method, url, headers, body }))
          countHostCall('http.response', response.body.byteLength)
          return response
        },
      },
      secrets: {
        async get(name) {
          beginRequest('secrets.get', name.length)
          return valueOf(edge.secret(name))
        },
      },
      kv: {
        async get(key) {
          beginRequest('kv.get', key.length)
          const value = await valueOf(edge.kvGet(key))
          if (value !== undefined) pay(value.byteLength)
          return value
        },
        async set(key, value) {
          beginRequest('kv.set', key.length + value.byteLength)
          await valueOf(edge.kvSet(key, value))
        },
        async delete(key) {
          beginRequest('kv.delete', key.length)
          await valueOf(edge.kvDelete(key))
        },
        async keys(prefix) {
          beginRequest('kv.keys', prefix.length)
          const keys = await valueOf(edge.kvKeys(prefix))
          pay(8 * keys.length + keys.join('').length)
          return keys
        },
      },
      channel: {
        async post(channel, text) {
          beginRequest('channel.post', channel.length + text.length)
          await valueOf(edge.post(channel, text))
        },
      },
    }
    const denying = (name) => new Proxy({}, { get: () => () => refuse(name) })
    const imports = {}
    for (const name of ${JSON.stringify(SkillCapability.options)}) imports['countersign:skill/' + name] = granted.includes(name) && name in all ? all[name] : denying(name)
    const create = (module, wanted) => {
      if (instantiated.has(module)) throw new Refused('it instantiates a module twice')
      instantiated.add(module)
      const { exports } = account.instance(module, wanted)
      for (const exported of Object.values(exports)) if (exported instanceof WebAssembly.Memory) memories.add(exported)
      return account.wrapExports(exports)
    }
    const execute = async () => {
      try {
        const { run } = account.runSync(() => instantiate((name) => MODULES.get(name), imports, create))
        const output = await run(tool, input)
        return { kind: 'returned', output }
      } catch (error) {
        if (account.isEmpty) return { kind: 'fuel_exhausted' }
        if (refused !== undefined) return { kind: 'capability_denied', detail: refused }
        if (error?.constructor?.name === 'ComponentError') return { kind: 'skill_error', detail: String(error.payload).slice(0, ${LIMITS.skill_detail_chars}) }
        const isTooDeep = error instanceof RangeError && /call stack/.test(error.message)
        if (isTooDeep) account.drain()
        return { kind: 'trap', detail: isTooDeep ? 'call stack exhausted' : String(error?.message ?? error).slice(0, ${LIMITS.skill_detail_chars}) }
      }
    }
    const end = await execute()
    let memory = 0
    for (const { buffer } of memories) memory += buffer.byteLength
    memories.clear()
    collectGarbage(memory)
    return { end, log, fuel_used: account.used, memory_bytes: memory, host_calls: hostCalls }
  }
}
`

export type CodeFile = readonly [name: string, bytes: Uint8Array]

/**
 * Part of each isolate's name, so that a changed harness is never mixed with an isolate loaded
 * before.
 */
export const HARNESS_SHA256 = sha256(harness([]))

/** The loader's description of an isolate made of the transpiler's files. */
export function isolateCode(files: readonly CodeFile[]): WorkerLoaderWorkerCode {
  const modules: Record<string, { js: string } | { wasm: ArrayBuffer }> = {}
  for (const [name, bytes] of files)
    modules[name] = name.endsWith('.wasm')
      ? { wasm: Uint8Array.from(bytes).buffer }
      : { js: new TextDecoder().decode(bytes) }
  const core = Object.keys(modules).filter((name) => name.startsWith('component.') && name.endsWith('.wasm'))
  return {
    compatibilityDate: '2026-11-01',
    mainModule: 'skill.js',
    modules: { 'skill.js': { js: harness(core) }, ...modules },
    env: {},
    globalOutbound: null,
    // The highest limit of any call; run-call.ts enforces each call's own.
    limits: { cpuMs: MAX_SKILL_LIMITS.timeout_ms },
  }
}
