// The edge's side of what a skill keeps and posts: each key and each channel is held against the call's plan before anybody is asked, and
// what comes from the isolate is a stranger's. Bounds are for the objects behind it to say; their refusals are told to the skill.

import type { SkillPlan } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import type { Remote } from '../../bindings.ts'
import type { SkillObject } from '../skill-object.ts'
import { faultInKey, granted, listable } from '../storage/keys.ts'
import { type Answer, MALFORMED } from './host-answer.ts'

export type Kept = {
  readonly storage: Pick<Remote<SkillObject>, 'get' | 'set' | 'delete' | 'keys'>
  /** `number`: which of the call's posts it is. */
  readonly post: (channel: string, number: number, text: string) => Promise<Result<true>>
}

const named = (text: string): string => `\`${text.slice(0, 64)}\``

export class Keeping {
  readonly #kept: Kept
  readonly #prefixes: readonly string[]
  readonly #channels: readonly string[]
  #posts = 0

  constructor({ executor: { kv = [], channels = [] } }: SkillPlan, kept: Kept) {
    this.#kept = kept
    this.#prefixes = kv
    this.#channels = channels
  }

  async get(key: unknown): Promise<Answer<Uint8Array | undefined>> {
    const own = this.#own(key)
    if (!('value' in own)) return own
    const answer = await told(this.#kept.storage.get(own.value))
    return 'value' in answer ? { value: answer.value ?? undefined } : answer
  }

  async set(key: unknown, value: unknown): Promise<Answer<true>> {
    const own = this.#own(key)
    if (!('value' in own)) return own
    return value instanceof Uint8Array ? told(this.#kept.storage.set(own.value, value)) : MALFORMED
  }

  async delete(key: unknown): Promise<Answer<true>> {
    const own = this.#own(key)
    return 'value' in own ? told(this.#kept.storage.delete(own.value)) : own
  }

  async keys(beginning: unknown): Promise<Answer<string[]>> {
    if (typeof beginning !== 'string') return MALFORMED
    if (!listable(this.#prefixes, beginning))
      return { denied: `kv: the keys that begin with ${named(beginning)}` }
    return told(this.#kept.storage.keys(beginning))
  }

  /** Numbered before anything is known of it: whoever carries the call out again gives each the number that it had. */
  async post(channel: unknown, text: unknown): Promise<Answer<true>> {
    this.#posts += 1
    if (typeof channel !== 'string' || typeof text !== 'string') return MALFORMED
    if (!this.#channels.includes(channel)) return { denied: `the channel ${named(channel)}` }
    return told(this.#kept.post(channel, this.#posts, text))
  }

  #own(key: unknown): Answer<string> {
    if (typeof key !== 'string') return MALFORMED
    const fault = faultInKey(key)
    if (fault !== undefined) return { error: fault }
    return granted(this.#prefixes, key) ? { value: key } : { denied: `kv: the key ${named(key)}` }
  }
}

/** What an object of ours answers, as a skill is told it; one that breaks may be well the next time. */
async function told<T>(asked: Promise<Result<T>>): Promise<Answer<T>> {
  try {
    const answer = await asked
    return answer.ok ? { value: answer.value } : { error: answer.error.detail }
  } catch {
    return { error: 'the edge could not do it; try again' }
  }
}
