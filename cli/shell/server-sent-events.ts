// Server-sent events as they come, by the WHATWG's rules as far as an edge uses them. It ends with the stream, however that ends: whoever
// reads knows by the events whether there is more, and where to go on.

export type Told = { readonly id: string; readonly event: string; readonly data: string }

/** An edge says every 15 s that it is still there. */
const SILENCE_MS = 45_000
/** Of one event: what an edge sends at once is less, however JSON spells it. */
const MOST_CHARS = 1 << 20

export async function* eventsOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Told> {
  const reader = body.getReader()
  const text = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const silence = setTimeout(() => void reader.cancel(), SILENCE_MS)
      const read = await reader.read().finally(() => clearTimeout(silence))
      if (read.done) return
      const blocks = (rest + text.decode(read.value, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield* eventIn(block)
      if (rest.length > MOST_CHARS) return
    }
  } catch {
    return // the connection broke, or whoever reads was interrupted
  } finally {
    void reader.cancel().catch(() => undefined) // who stops reading hangs up
  }
}

function* eventIn(block: string): Generator<Told> {
  const fields = new Map(
    block
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]),
  )
  const [id, event, data] = [fields.get('id'), fields.get('event'), fields.get('data')]
  if (id !== undefined && event !== undefined && data !== undefined) yield { id, event, data }
}
