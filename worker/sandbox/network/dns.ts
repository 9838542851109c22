// Owns the addresses of names for one call: those of this host's own list (/etc/hosts), else what its DNS servers say. So many are asked
// for at a time, each within its time, and all of it ends with the call. The system's own way (`getaddrinfo`) is not taken: it knows no end, and
// asks through four threads that all calls would share. It judges no address.

import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import type { Resolve } from './host-patterns.ts'

/** Names of one call that are asked for at a time; the others wait. */
export const NAMES_AT_ONCE = 8
/** Of one question, of which there are two at most to each server. */
const ANSWER_WITHIN_MS = 1_500
/** Once one kind of address is known, so long for the other: some servers answer for one kind alone. */
const OTHER_WITHIN_MS = 500

type Sources = { readonly hosts?: string; readonly servers?: readonly string[] }

export class Names {
  readonly #sources: Sources
  readonly #waiting: (() => void)[] = []
  #own: Promise<ReadonlyMap<string, readonly string[]>> | undefined
  #resolver: Resolver | undefined
  #asking = 0
  #closed = false

  constructor(sources: Sources = {}) {
    this.#sources = sources
  }

  /** None where there is no answer, or none any more. */
  readonly resolve: Resolve = async (host) => {
    this.#own ??= listedIn(this.#sources.hosts ?? '/etc/hosts')
    const own = (await this.#own).get(host)
    if (own !== undefined) return own
    if (this.#asking < NAMES_AT_ONCE) this.#asking++
    else await new Promise<void>((settle) => this.#waiting.push(settle))
    try {
      if (this.#closed) return []
      return await answersTo([this.#server().resolve4(host), this.#server().resolve6(host)])
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#asking--
      else next() // in its place
    }
  }

  close(): void {
    this.#closed = true
    this.#resolver?.cancel()
  }

  /** Made when it is needed, so that it reads the host's settings of that moment. */
  #server(): Resolver {
    if (this.#resolver === undefined) {
      this.#resolver = new Resolver({ timeout: ANSWER_WITHIN_MS, tries: 2, maxTimeout: 2 * ANSWER_WITHIN_MS })
      if (this.#sources.servers !== undefined) this.#resolver.setServers(this.#sources.servers)
    }
    return this.#resolver
  }
}

async function answersTo(questions: readonly Promise<string[]>[]): Promise<string[]> {
  const answers: string[][] = questions.map(() => [])
  const late = Promise.withResolvers<void>()
  let timer: NodeJS.Timeout | undefined
  const heard = questions.map(async (question, index) => {
    const addresses = await question.catch(() => [])
    answers[index] = addresses
    if (addresses.length > 0) timer ??= setTimeout(late.resolve, OTHER_WITHIN_MS)
  })
  await Promise.race([Promise.all(heard), late.promise])
  clearTimeout(timer)
  return answers.flat()
}

/** hosts(5): an address, then its names. */
async function listedIn(path: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const rows = text.split('\n').flatMap((line) => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    return isIP(address) === 0 ? [] : names.map((name) => [name.toLowerCase(), address] as const)
  })
  const named = Map.groupBy(rows, ([name]) => name)
  return new Map([...named].map(([name, group]) => [name, group.map(([, address]) => address)]))
}
