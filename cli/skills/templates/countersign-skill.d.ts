// The world `countersign:skill@0.1.0` as modules; world.wit documents each function. A function
// that fails throws a string with the reason. Using a capability that skill.toml does not grant
// ends the call. Besides these modules a skill has the JavaScript language and the globals declared
// at the end.

declare module 'countersign:skill/log' {
  export function write(level: string, text: string): void
}

declare module 'countersign:skill/clock' {
  export function now(): bigint
}

declare module 'countersign:skill/random' {
  export function bytes(count: number): Uint8Array
}

declare module 'countersign:skill/http' {
  /** `headers` are lines, `name: value`. */
  export function request(method: string, url: string, headers?: string, body?: Uint8Array): Response
  export interface Response {
    status: number
    headers: Array<[string, string]>
    body: Uint8Array
  }
}

declare module 'countersign:skill/secrets' {
  export function get(name: string): string
}

declare module 'countersign:skill/kv' {
  export function get(key: string): Uint8Array | undefined
  export function set(key: string, value: Uint8Array): void
  function _delete(key: string): void

  export { _delete as delete }
  export function keys(prefix: string): Array<string>
}

declare module 'countersign:skill/channel' {
  export function post(channel: string, text: string): void
}

/** Writes lines to the call's log; needs the capability `log`. */
declare var console: Record<'debug' | 'log' | 'info' | 'warn' | 'error', (...values: unknown[]) => void>
declare class TextEncoder {
  encode(text?: string): Uint8Array
}
declare class TextDecoder {
  decode(bytes?: Uint8Array): string
}
