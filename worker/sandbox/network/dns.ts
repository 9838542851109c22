// Owns name resolution for one call: /etc/hosts, then this host's DNS servers. Queries are limited
// in number and time, and end with the call. We don't use `getaddrinfo`: it can't be cancelled, and
// all calls would share its four threads.

import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Resolve } from './host-patterns.ts'

/** Names of one call that are resolved at a time; further ones wait. */
export const NAMES_AT_ONCE = 8
/** Of one query; each server gets at most two. */
const ANSWER_WITHIN_MS = 1_500
/**
 * Wait for IPv6 addresses after IPv4 ones or the reverse: some servers answer only for one of them.
 */
const OTHER_WITHIN_MS = 500

type Sources = { readonly hosts?: string; readonly servers?: readonly string[] }

export class NameResolver {
  readonly #sources: Sources
  readonly #waiting: (() => void)[] = []
  #hostsFile: Promise<ReadonlyMap<string, readonly string[]>> | undefined
  #resolver: Resolver | undefined
  #running = 0
  #closed = false

  constructor(sources: Sources = {}) {
    this.#sources = sources
  }

  /** Empty if there is no answer, or the call has ended. */
  readonly resolve: Resolve = async (host) => {
    this.#hostsFile ??= listedIn(this.#sources.hosts ?? '/etc/hosts')
    const own = (await this.#hostsFile).get(host)
    if (own !== undefined) return own
    if (this.#running < NAMES_AT_ONCE) this.#running++
    else await new Promise<void>((settle) => this.#waiting.push(settle))
    try {
      if (this.#closed) return []
      return await firstAnswers([this.#server().resolve4(host), this.#server().resolve6(host)])
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next() // it inherits our slot
    }
  }

  close(): void {
    this.#closed = true
    this.#resolver?.cancel()
  }

  /** Made on first use, so that it reads the host's current settings. */
  #server(): Resolver {
    if (this.#resolver === undefined) {
      this.#resolver = new Resolver({ timeout: ANSWER_WITHIN_MS, tries: 2, maxTimeout: 2 * ANSWER_WITHIN_MS })
      if (this.#sources.servers !== undefined) this.#resolver.setServers(this.#sources.servers)
    }
    return this.#resolver
  }
}

async function firstAnswers(questions: readonly Promise<string[]>[]): Promise<string[]> {
  const answers: string[][] = questions.map(() => [])
  const late = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined
  const arrivals = questions.map(async (question, index) => {
    const addresses = await question.catch(() => [])
    answers[index] = addresses
    if (addresses.length > 0) timer ??= setTimeout(late.resolve, OTHER_WITHIN_MS)
  })
  await Promise.race([Promise.all(arrivals), late.promise])
  clearTimeout(timer)
  return answers.flat()
}

/** Reads hosts(5): each line is an address, then its names. */
async function listedIn(path: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const rows = text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    return isIP(address) === 0 ? [] : names.map((name) => [name.toLowerCase(), address] as const)
  })
  const named = Map.groupBy(rows, ([name]) => name)
  return new Map([...named].map(([name, group]) => [name, group.map(([, address]) => address)]))
}
