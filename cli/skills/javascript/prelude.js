// The module that the engine evaluates before the author's: the world's interfaces, built on the
// five native functions of canonical-abi-wat.ts; the console, Date and TextEncoder that authors
// expect; and the entry point `run`. It is part of every JavaScript skill's component and runs
// nowhere else.

const SystemDate = Date
/** Parameters and results of a native call, in words of the canonical ABI. */
const words = new Uint32Array(16)
const wordBytes = new Uint8Array(words.buffer)
const answer = new Uint8Array(64)
const answered = new DataView(answer.buffer)

let native
let granted
let imports
let main
let running = false
let end = '1`run` ended without a result'

/** Returns the world's interfaces, for the modules `countersign:skill/…`. */
export function begin(functions, capabilities, functionNames) {
  native = functions
  granted = capabilities
  imports = functionNames
  asExpected()
  return { log, clock, random, http, secrets, kv, channel }
}

/** Returns `run` for the component to export, and `end`, to be called when no job is pending. */
export function entry(namespace) {
  if (typeof namespace.run !== 'function')
    throw new TypeError('the skill’s main module does not export a function `run`')
  main = namespace
  return { run, end: () => end }
}

function run(tool, input) {
  running = true
  try {
    const value = main.run(tool, input)
    if (typeof value?.then !== 'function') return void returned(value)
    end = '1`run` returned a promise that never settles'
    value.then(returned).then(undefined, failed)
  } catch (thrown) {
    failed(thrown)
  }
}

function returned(value) {
  if (typeof value !== 'string') throw new TypeError('`run` must return a string of JSON')
  end = `0${value.toWellFormed()}`
}

function failed(thrown) {
  end = `1${sentence(thrown).toWellFormed()}`
}

/** The error for the caller: the author's message, or the engine's with its place. */
function sentence(thrown) {
  if (!(thrown instanceof Error)) return said(thrown)
  if (thrown.name === 'Error') return thrown.message
  const [, place] = /\(([^()\s]+:\d+:\d+)\)/.exec(thrown.stack ?? '') ?? []
  return place === undefined ? String(thrown) : `${thrown} (${place})`
}

const said = (value) =>
  typeof value === 'string'
    ? value
    : value instanceof Error
      ? String(value)
      : (JSON.stringify(value) ?? String(value))

// ── The world, by the canonical ABI ──

const word = (at) => answered.getUint32(at, true)
const bytesAt = (at) => native.take(word(at), word(at + 4))
const textAt = (at) => native.text(bytesAt(at))

/** A list of records of `each` strings, flattened. */
function textsAt(at, each) {
  const list = new DataView(native.take(word(at), word(at + 4) * each * 8).buffer)
  const text = (_, i) =>
    native.text(native.take(list.getUint32(i * 8, true), list.getUint32(i * 8 + 4, true)))
  return Array.from({ length: list.byteLength / 8 }, text)
}

const textOf = (value) => native.utf8(String(value).toWellFormed())
function bytesOf(value) {
  if (value instanceof Uint8Array) return value
  throw new TypeError('bytes must be a Uint8Array')
}

/**
 * Calls a function of the world. Strings and bytes go by address and length and stay alive during
 * the call.
 */
function ask(name, method, ...values) {
  if (!granted.includes(name)) throw new Error(`\`${name}\` is not under [capabilities] in skill.toml`)
  if (!running)
    throw new Error(
      `\`countersign:skill/${name}\` can only be used inside \`run\`; all other code runs while the skill is built`,
    )
  const given = (value) =>
    typeof value === 'number' ? value : [native.address(value), ...(value === answer ? [] : [value.length])]
  words.set(values.flatMap(given))
  native.call(imports.indexOf(`${name}.${method}`), wordBytes)
}

/** Calls a function that may fail, and throws its error, a string. */
function asked(...question) {
  ask(...question, answer)
  if (answered.getUint8(0) !== 0) throw textAt(4)
}

const log = { write: (level, message) => ask('log', 'write', textOf(level), textOf(message)) }

const clock = {
  now() {
    ask('clock', 'now', answer)
    return answered.getBigUint64(0, true)
  },
}

const random = {
  bytes(count) {
    ask('random', 'bytes', Number(count) >>> 0, answer)
    return bytesAt(0)
  },
}

const http = {
  request(method, url, headers = '', body = new Uint8Array()) {
    asked('http', 'request', textOf(method), textOf(url), textOf(headers), bytesOf(body))
    const lines = textsAt(8, 2)
    const pair = (_, i) => [lines[i * 2], lines[i * 2 + 1]]
    return {
      status: answered.getUint16(4, true),
      headers: Array.from({ length: lines.length / 2 }, pair),
      body: bytesAt(16),
    }
  },
}

const secrets = {
  get(name) {
    asked('secrets', 'get', textOf(name))
    return textAt(4)
  },
}

const kv = {
  get(key) {
    asked('kv', 'get', textOf(key))
    return answered.getUint8(4) === 0 ? undefined : bytesAt(8)
  },
  set: (key, value) => asked('kv', 'set', textOf(key), bytesOf(value)),
  delete: (key) => asked('kv', 'delete', textOf(key)),
  keys(prefix) {
    asked('kv', 'keys', textOf(prefix))
    return textsAt(4, 1)
  },
}

const channel = { post: (name, message) => asked('channel', 'post', textOf(name), textOf(message)) }

// ── Globals that a JavaScript engine would get from its operating system ──

function asExpected() {
  const now = () => Number(clock.now())
  globalThis.Date = new Proxy(SystemDate, {
    apply: () => new SystemDate(now()).toString(),
    construct: (target, values, made) =>
      Reflect.construct(target, values.length === 0 ? [now()] : values, made),
  })
  SystemDate.prototype.constructor = globalThis.Date
  SystemDate.now = now
  Math.random = () => new DataView(random.bytes(4).buffer).getUint32(0, true) / 2 ** 32
  delete globalThis.performance
  const line =
    (level) =>
    (...values) =>
      log.write(level, values.map(said).join(' '))
  globalThis.console = {
    debug: line('debug'),
    log: line('info'),
    info: line('info'),
    warn: line('warn'),
    error: line('error'),
  }
  globalThis.TextEncoder = class TextEncoder {
    encode(value = '') {
      return textOf(value)
    }
  }
  globalThis.TextDecoder = class TextDecoder {
    decode(value = new Uint8Array()) {
      return native.text(bytesOf(value))
    }
  }
}
