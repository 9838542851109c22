// The world `countersign:skill@0.1.0` for AssemblyScript, by the canonical ABI. Only functions that
// are used are imported.

/** `failed` is 0 for an output, 1 for an error message. */
export class Result {
  constructor(
    public failed: u32,
    public text: string,
  ) {}
}
export function returned(output: string): Result {
  return new Result(0, output)
}
export function failed(why: string): Result {
  return new Result(1, why)
}

// ── Memory and strings of the host ──

/** The host allocates memory for its values with this; `entered` and `takenBytes` free them. */
export function cabi_realloc(old: usize, before: usize, align: usize, size: usize): usize {
  if (size == 0) return align
  return before == 0 ? heap.alloc(size) : heap.realloc(old, size)
}

export function entered(at: usize, length: i32): string {
  const text = String.UTF8.decodeUnsafe(at, length)
  if (length > 0) heap.free(at)
  return text
}

function takenBytes(at: usize, length: i32): Uint8Array {
  const bytes = new Uint8Array(length)
  memory.copy(bytes.dataStart, at, length)
  if (length > 0) heap.free(at)
  return bytes
}

// An instance runs one call and calls one host function at a time, so one result area is enough.
const area: usize = memory.data(64, 8)
let answer: ArrayBuffer | null = null

export function left(result: Result): usize {
  const bytes = String.UTF8.encode(result.text)
  answer = bytes // keeps the bytes alive until the host has read them
  store<u32>(area, result.failed)
  store<usize>(area, changetype<usize>(bytes), 4)
  store<i32>(area, bytes.byteLength, 8)
  return area
}

@inline function word(offset: usize): usize {
  return load<usize>(area + offset)
}
@inline function length(offset: usize): i32 {
  return load<i32>(area + offset)
}
@inline function address(text: ArrayBuffer): usize {
  return changetype<usize>(text)
}

/** A value, or the error message if there is none. */
export class Answer<T> {
  constructor(
    public value: T,
    public error: string | null,
  ) {}
}
function answered<T>(value: T): Answer<T> {
  return new Answer<T>(value, null)
}
/** The error message of the last host function, or null. */
function failure(): string | null {
  return load<u8>(area) == 0 ? null : entered(word(4), length(8))
}

// ── The interfaces ──

@external('countersign:skill/log@0.1.0', 'write')
declare function log_write(level: usize, levelLength: i32, text: usize, textLength: i32): void
@external('countersign:skill/clock@0.1.0', 'now')
declare function clock_now(): u64
@external('countersign:skill/random@0.1.0', 'bytes')
declare function random_bytes(count: u32, answer: usize): void
@external('countersign:skill/http@0.1.0', 'request')
declare function http_request(
  method: usize,
  methodLength: i32,
  url: usize,
  urlLength: i32,
  headers: usize,
  headersLength: i32,
  body: usize,
  bodyLength: i32,
  answer: usize,
): void
@external('countersign:skill/secrets@0.1.0', 'get')
declare function secrets_get(name: usize, nameLength: i32, answer: usize): void
@external('countersign:skill/kv@0.1.0', 'get')
declare function kv_get(key: usize, keyLength: i32, answer: usize): void
@external('countersign:skill/kv@0.1.0', 'set')
declare function kv_set(key: usize, keyLength: i32, value: usize, valueLength: i32, answer: usize): void
@external('countersign:skill/kv@0.1.0', 'delete')
declare function kv_delete(key: usize, keyLength: i32, answer: usize): void
@external('countersign:skill/kv@0.1.0', 'keys')
declare function kv_keys(prefix: usize, prefixLength: i32, answer: usize): void
@external('countersign:skill/channel@0.1.0', 'post')
declare function channel_post(channel: usize, channelLength: i32, text: usize, textLength: i32, answer: usize): void

export namespace log {
  export function write(level: string, text: string): void {
    const said = String.UTF8.encode(level)
    const message = String.UTF8.encode(text)
    log_write(address(said), said.byteLength, address(message), message.byteLength)
  }
}

export namespace clock {
  export function now(): u64 {
    return clock_now()
  }
}

export namespace random {
  export function bytes(count: u32): Uint8Array {
    random_bytes(count, area)
    return takenBytes(word(0), length(4))
  }
}

export namespace http {
  export class Response {
    constructor(
      public status: i32,
      public headers: string[][],
      public body: Uint8Array,
    ) {}
  }

  /** `headers` are lines, `name: value`. */
  export function request(method: string, url: string, headers: string, body: Uint8Array): Answer<Response | null> {
    const m = String.UTF8.encode(method)
    const u = String.UTF8.encode(url)
    const h = String.UTF8.encode(headers)
    http_request(
      address(m),
      m.byteLength,
      address(u),
      u.byteLength,
      address(h),
      h.byteLength,
      body.dataStart,
      body.length,
      area,
    )
    const why = failure()
    if (why != null) return new Answer<Response | null>(null, why)
    const pairs: string[][] = []
    const list = word(8)
    const count = length(12)
    for (let i = 0; i < count; i++) {
      const at = list + i * 16
      pairs.push([entered(load<usize>(at), load<i32>(at, 4)), entered(load<usize>(at, 8), load<i32>(at, 12))])
    }
    return answered<Response | null>(new Response(load<u16>(area, 4), pairs, takenBytes(word(16), length(20))))
  }
}

export namespace secrets {
  export function get(name: string): Answer<string> {
    const n = String.UTF8.encode(name)
    secrets_get(address(n), n.byteLength, area)
    const why = failure()
    return why != null ? new Answer<string>('', why) : answered<string>(entered(word(4), length(8)))
  }
}

export namespace kv {
  /** The value, or null if the key has none. */
  export function get(key: string): Answer<Uint8Array | null> {
    const k = String.UTF8.encode(key)
    kv_get(address(k), k.byteLength, area)
    const why = failure()
    if (why != null) return new Answer<Uint8Array | null>(null, why)
    return answered<Uint8Array | null>(load<u8>(area, 4) == 0 ? null : takenBytes(word(8), length(12)))
  }

  /** The error message, or null. */
  export function set(key: string, value: Uint8Array): string | null {
    const k = String.UTF8.encode(key)
    kv_set(address(k), k.byteLength, value.dataStart, value.length, area)
    return failure()
  }

  export function remove(key: string): string | null {
    const k = String.UTF8.encode(key)
    kv_delete(address(k), k.byteLength, area)
    return failure()
  }

  export function keys(prefix: string): Answer<string[]> {
    const p = String.UTF8.encode(prefix)
    kv_keys(address(p), p.byteLength, area)
    const why = failure()
    if (why != null) return new Answer<string[]>([], why)
    const found: string[] = []
    const list = word(4)
    const count = length(8)
    for (let i = 0; i < count; i++) found.push(entered(load<usize>(list + i * 8), load<i32>(list + i * 8, 4)))
    return answered<string[]>(found)
  }
}

export namespace channel {
  export function post(channel: string, text: string): string | null {
    const c = String.UTF8.encode(channel)
    const t = String.UTF8.encode(text)
    channel_post(address(c), c.byteLength, address(t), t.byteLength, area)
    return failure()
  }
}
