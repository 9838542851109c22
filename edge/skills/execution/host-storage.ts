// Storage and channels as a skill call may use them: checks each key and each channel against the
// call's plan before it asks the objects behind them. Those enforce the quotas; the skill receives
// their refusals. All arguments come from the isolate and are untrusted.

import type { SkillPlan } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { canList, faultInKey, isGranted } from '../storage/keys.ts'
import { type HostAnswer, MALFORMED } from './host-answer.ts'

export type HostServices = {
  /** `get` returns null if the key is not set. */
  readonly storage: {
    readonly get: (key: string) => Promise<Result<Uint8Array | null>>
    readonly set: (key: string, value: Uint8Array) => Promise<Result<true>>
    readonly delete: (key: string) => Promise<Result<true>>
    readonly keys: (prefix: string) => Promise<Result<string[]>>
  }
  /** `number`: the position among the call's posts, from 1. */
  readonly post: (channel: string, number: number, text: string) => Promise<Result<true>>
}

const quoted = (text: string): string => `\`${text.slice(0, 64)}\``

export class GrantedServices {
  readonly #kept: HostServices
  readonly #prefixes: readonly string[]
  readonly #channels: readonly string[]
  #posts = 0

  constructor({ executor: { kv = [], channels = [] } }: SkillPlan, kept: HostServices) {
    this.#kept = kept
    this.#prefixes = kv
    this.#channels = channels
  }

  async get(key: unknown): Promise<HostAnswer<Uint8Array | undefined>> {
    const own = this.#own(key)
    if (!('value' in own)) return own
    const answer = await answerOf(this.#kept.storage.get(own.value))
    return 'value' in answer ? { value: answer.value ?? undefined } : answer
  }

  async set(key: unknown, value: unknown): Promise<HostAnswer<true>> {
    const own = this.#own(key)
    if (!('value' in own)) return own
    return value instanceof Uint8Array ? answerOf(this.#kept.storage.set(own.value, value)) : MALFORMED
  }

  async delete(key: unknown): Promise<HostAnswer<true>> {
    const own = this.#own(key)
    return 'value' in own ? answerOf(this.#kept.storage.delete(own.value)) : own
  }

  async keys(prefix: unknown): Promise<HostAnswer<string[]>> {
    if (typeof prefix !== 'string') return MALFORMED
    if (!canList(this.#prefixes, prefix)) return { denied: `kv: the keys that begin with ${quoted(prefix)}` }
    return answerOf(this.#kept.storage.keys(prefix))
  }

  /**
   * Posts are numbered before any check, so that a repeated execution gives each the same number.
   */
  async post(channel: unknown, text: unknown): Promise<HostAnswer<true>> {
    this.#posts += 1
    if (typeof channel !== 'string' || typeof text !== 'string') return MALFORMED
    if (!this.#channels.includes(channel)) return { denied: `the channel ${quoted(channel)}` }
    return answerOf(this.#kept.post(channel, this.#posts, text))
  }

  #own(key: unknown): HostAnswer<string> {
    if (typeof key !== 'string') return MALFORMED
    const fault = faultInKey(key)
    if (fault !== undefined) return { error: fault }
    return isGranted(this.#prefixes, key) ? { value: key } : { denied: `kv: the key ${quoted(key)}` }
  }
}

/** Maps an object's answer for the skill. An exception may be temporary, so the skill may retry. */
async function answerOf<T>(result: Promise<Result<T>>): Promise<HostAnswer<T>> {
  try {
    const answer = await result
    return answer.ok ? { value: answer.value } : { error: answer.error.detail }
  } catch {
    return { error: 'the edge could not complete the operation; try again' }
  }
}
