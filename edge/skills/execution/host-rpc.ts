// The requests that an isolate may send to the edge over RPC. Checks the types of the arguments,
// which are untrusted; the call's host (host.ts) checks the rest.

import { RpcTarget } from 'cloudflare:workers'
import type { Response, SkillHost } from './host.ts'
import { type HostAnswer, MALFORMED } from './host-answer.ts'
import { HttpRequestInput } from './host-http.ts'

/** The RPC stub that the isolate receives. Arguments are untrusted and of any type. */
export class HostRpc extends RpcTarget {
  readonly #host: SkillHost

  constructor(host: SkillHost) {
    super()
    this.#host = host
  }
  /** The skill has used up a slice of its fuel and waits for its next turn. */
  more(): Promise<HostAnswer<true>> {
    return this.#host.yieldTurn()
  }
  async request(input: unknown): Promise<HostAnswer<Response>> {
    const read = HttpRequestInput.safeParse(input)
    return read.success ? this.#host.request(read.data) : MALFORMED
  }
  async secret(name: unknown): Promise<HostAnswer<string>> {
    return typeof name === 'string' ? this.#host.secret(name) : MALFORMED
  }
  kvGet(key: unknown): Promise<HostAnswer<Uint8Array | undefined>> {
    return this.#host.use('kv.get', (services) => services.get(key))
  }
  kvSet(key: unknown, value: unknown): Promise<HostAnswer<true>> {
    return this.#host.use('kv.set', (services) => services.set(key, value))
  }
  kvDelete(key: unknown): Promise<HostAnswer<true>> {
    return this.#host.use('kv.delete', (services) => services.delete(key))
  }
  kvKeys(prefix: unknown): Promise<HostAnswer<string[]>> {
    return this.#host.use('kv.keys', (services) => services.keys(prefix))
  }
  post(channel: unknown, text: unknown): Promise<HostAnswer<true>> {
    return this.#host.use('channel.post', (services) => services.post(channel, text))
  }
}
