// Parses server-sent events (the part of the WHATWG format that an edge uses). The generator ends
// with the stream, for whatever reason; the caller knows from the events whether to reconnect.

export type ServerSentEvent = { readonly id: string; readonly event: string; readonly data: string }

/** An edge sends a keep-alive every 15 s. */
const KEEP_ALIVE_TIMEOUT_MS = 45_000
/** The longest event that is accepted; an edge sends shorter ones. */
const MAX_EVENT_CHARS = 1 << 20

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSentEvent> {
  const reader = body.getReader()
  const text = new TextDecoder()
  let rest = ''
  try {
    for (;;) {
      const silence = setTimeout(() => void reader.cancel(), KEEP_ALIVE_TIMEOUT_MS)
      const read = await reader.read().finally(() => clearTimeout(silence))
      if (read.done) return
      const blocks = (rest + text.decode(read.value, { stream: true })).split('\n\n')
      rest = blocks.pop() ?? ''
      for (const block of blocks) yield* parseEvent(block)
      if (rest.length > MAX_EVENT_CHARS) return
    }
  } catch {
    return // the connection broke, or the request was aborted
  } finally {
    void reader.cancel().catch(() => undefined) // closes the connection when the caller stops reading
  }
}

function* parseEvent(block: string): Generator<ServerSentEvent> {
  const fields = new Map(
    block
      .split('\n')
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1).trimStart()]),
  )
  const [id, event, data] = [fields.get('id'), fields.get('event'), fields.get('data')]
  if (id !== undefined && event !== undefined && data !== undefined) yield { id, event, data }
}
