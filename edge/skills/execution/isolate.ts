// What runs beside a skill in its isolate, as the text that the platform's loader takes: a fresh instance for each call, fuel from one
// counter, and the host's side of each capability that the call was granted. No network, no bindings: what a call is given comes with it.
// It is the last thing between a skill and the edge that a skill could reach, so the edge reads its answers as a stranger's.

import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS, MAX_SKILL_LIMITS } from '../../../shared/limits.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import { TANK } from './isolate-fuel.ts'

/** As text, for it runs where nothing of ours can be imported. */
const harness = (modules: readonly string[]): string => `
import { WorkerEntrypoint } from 'cloudflare:workers'
import { instantiate } from './component.js'
${modules.map((name, index) => `import module${index} from './${name}'`).join('\n')}
const MODULES = new Map([${modules.map((name, index) => `[${JSON.stringify(name)}, module${index}]`).join(', ')}])

class Refused extends Error {}
/** The error of a function's \`result\`. */
class Failed {
  constructor(payload) { this.payload = payload }
}

${TANK}
export default class extends WorkerEntrypoint {
  async call({ tool, input, fuel, granted, now, random }, asking) {
    const tank = new Tank(fuel, async () => {
      if (!('value' in (await asking.more()))) throw new Refused('the call is over')
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
    const pay = (bytes) => tank.pay(${LIMITS.skill_host_call_fuel} + bytes)
    const host = (name, bytes) => {
      hostCalls[name] = (hostCalls[name] ?? 0) + 1
      pay(bytes)
    }
    /** What is far too much is not sent: whoever judges it would hold copies. */
    const ask = (name, bytes, most = ${LIMITS.skill_asked_bytes}) => {
      host(name, bytes)
      if (bytes > most) throw new Failed('what it hands over has ' + bytes + ' bytes; ' + most + ' are the most')
    }
    const asked = async (answering) => {
      const answer = await answering
      tank.resumed()
      await tank.rest()
      if ('denied' in answer) refuse(answer.denied)
      if ('error' in answer) throw new Failed(answer.error)
      return answer.value
    }
    const all = {
      log: {
        write(level, text) {
          host('log.write', level.length + text.length)
          log += (level + ': ' + text + '\\n').slice(0, Math.max(0, ${LIMITS.skill_log_chars + LIMITS.skill_log_spare_chars} - log.length))
        },
      },
      clock: {
        now() {
          host('clock.now', 0)
          return BigInt(now)
        },
      },
      random: {
        bytes(count) {
          host('random.bytes', count)
          if (count > 65536) throw new Refused('more than 65,536 random bytes at once')
          return random === undefined ? crypto.getRandomValues(new Uint8Array(count)) : Uint8Array.from({ length: count }, () => random[drawn++ % random.length])
        },
      },
      http: {
        async request(method, url, headers, body) {
          ask('http.request', method.length + url.length + headers.length + body.byteLength, ${LIMITS.skill_asked_bytes + MAX_SKILL_LIMITS.net_bytes})
          const { status, headers: said, body: got } = await asked(asking.request({ method, url, headers, body }))
          host('http.response', got.byteLength)
          return { status, headers: said, body: got }
        },
      },
      secrets: {
        async get(name) {
          ask('secrets.get', name.length)
          return asked(asking.secret(name))
        },
      },
      kv: {
        async get(key) {
          ask('kv.get', key.length)
          const value = await asked(asking.kvGet(key))
          if (value !== undefined) pay(value.byteLength)
          return value
        },
        async set(key, value) {
          ask('kv.set', key.length + value.byteLength)
          await asked(asking.kvSet(key, value))
        },
        async delete(key) {
          ask('kv.delete', key.length)
          await asked(asking.kvDelete(key))
        },
        async keys(beginning) {
          ask('kv.keys', beginning.length)
          const keys = await asked(asking.kvKeys(beginning))
          pay(8 * keys.length + keys.join('').length)
          return keys
        },
      },
      channel: {
        async post(channel, text) {
          ask('channel.post', channel.length + text.length)
          await asked(asking.post(channel, text))
        },
      },
    }
    const denied = (name) => new Proxy({}, { get: () => () => refuse(name) })
    const imports = {}
    for (const name of ${JSON.stringify(SkillCapability.options)}) imports['countersign:skill/' + name] = granted.includes(name) && name in all ? all[name] : denied(name)
    const create = (module, wanted) => {
      if (instantiated.has(module)) throw new Refused('a module is instantiated twice')
      instantiated.add(module)
      const { exports } = tank.instance(module, wanted)
      for (const exported of Object.values(exports)) if (exported instanceof WebAssembly.Memory) memories.add(exported)
      return tank.shown(exports)
    }
    const ending = async () => {
      try {
        const { run } = tank.alone(() => instantiate((name) => MODULES.get(name), imports, create))
        const output = await run(tool, input)
        return { kind: 'returned', output }
      } catch (error) {
        if (tank.isEmpty) return { kind: 'fuel_exhausted' }
        if (refused !== undefined) return { kind: 'capability_denied', detail: refused }
        if (error?.constructor?.name === 'ComponentError') return { kind: 'skill_error', detail: String(error.payload).slice(0, ${LIMITS.skill_detail_chars}) }
        const isTooDeep = error instanceof RangeError && /call stack/.test(error.message)
        if (isTooDeep) tank.drain()
        return { kind: 'trap', detail: isTooDeep ? 'call stack exhausted' : String(error?.message ?? error).slice(0, ${LIMITS.skill_detail_chars}) }
      }
    }
    const end = await ending()
    let memory = 0
    for (const { buffer } of memories) memory += buffer.byteLength
    memories.clear()
    sweep(memory)
    return { end, log, fuel_used: tank.used, memory_bytes: memory, host_calls: hostCalls }
  }
}
`

export type CodeFile = readonly [name: string, bytes: Uint8Array]

/** By its digest: whoever changes the text above makes another isolate of every skill. */
export const HARNESS_SHA256 = sha256(harness([]))

/** What the loader is handed, of the files that the transpiler made. */
export function isolateOf(files: readonly CodeFile[]): WorkerLoaderWorkerCode {
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
    limits: { cpuMs: MAX_SKILL_LIMITS.timeout_ms }, // for all calls: one's own time is for whoever waits for it
  }
}
