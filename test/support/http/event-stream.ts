// Reads a run's event stream like a browser, by the WHATWG rules, until enough events have arrived
// or the time is over.

import { setTimeout as sleep } from 'node:timers/promises'

export type StreamEvent = { readonly id: string; readonly event: string; readonly data: string }

export class EventStream {
  readonly status: number
  readonly headers: Headers
  readonly events: StreamEvent[] = []
  readonly #abort: AbortController
  #ended = false

  private constructor(answer: Response, abort: AbortController) {
    this.status = answer.status
    this.headers = answer.headers
    this.#abort = abort
    void this.#read(answer)
  }

  static async open(url: URL, key: string, lastEventId?: string): Promise<EventStream> {
    const abort = new AbortController()
    const headers = {
      authorization: `Bearer ${key}`,
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    }
    return new EventStream(await fetch(url, { headers, signal: abort.signal }), abort)
  }

  async #read({ body }: Response): Promise<void> {
    const text = new TextDecoder()
    let rest = ''
    try {
      for await (const chunk of body ?? []) {
        const blocks = (rest + text.decode(chunk, { stream: true })).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) this.#take(block)
      }
    } catch {
      // aborted by the test, or closed by the edge, as `ended` shows
    }
    this.#ended = true
  }

  #take(block: string): void {
    const fields = new Map(
      block
        .split('\n')
        .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]),
    )
    const [id, event, data] = [fields.get('id'), fields.get('event'), fields.get('data')]
    if (id !== undefined && event !== undefined && data !== undefined) this.events.push({ id, event, data })
  }

  get ended(): boolean {
    return this.#ended
  }

  /** The first `count` events. */
  async take(count: number, within_ms = 10_000): Promise<StreamEvent[]> {
    for (const until = Date.now() + within_ms; this.events.length < count; await sleep(5)) {
      if (this.#ended || Date.now() > until) throw new Error(`${this.events.length} of ${count} events came`)
    }
    return this.events.slice(0, count)
  }

  close(): void {
    this.#abort.abort()
  }
}
