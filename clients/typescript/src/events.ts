// Reads server-sent events (the `text/event-stream` of the HTML standard) from a response's body.

export type ServerEvent = { readonly id: string; readonly event: string; readonly data: string }

/** Larger than any event of the edge: a piece of output is at most 64 KiB before its encoding. */
const MAX_EVENT_CHARS = 1_048_576

/**
 * The events of a stream. It ends when the stream does; it throws if nothing, not even a comment,
 * arrives for `idleMs`.
 */
export async function* serverEvents(
  body: ReadableStream<Uint8Array>,
  idleMs: number,
): AsyncGenerator<ServerEvent> {
  const reader = body.getReader()
  const text = new TextDecoder()
  let buffer = ''
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), idleMs)
      if (done) return
      buffer += text.decode(value, { stream: true })
      const blocks = buffer.split(/\r\n\r\n|\n\n|\r\r/)
      buffer = blocks.pop() ?? ''
      if (buffer.length > MAX_EVENT_CHARS) throw new Error('an event of the stream is too long')
      for (const block of blocks) {
        const event = eventIn(block)
        if (event !== undefined) yield event
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined) // the stream may have failed already
  }
}

function eventIn(block: string): ServerEvent | undefined {
  const fields = { id: '', event: 'message', data: [] as string[] }
  for (const line of block.split(/\r\n|\n|\r/)) {
    const [, name, value = ''] = /^(id|event|data)(?:: ?([\s\S]*))?$/.exec(line) ?? []
    if (name === 'data') fields.data.push(value)
    else if (name === 'id' || name === 'event') fields[name] = value
  }
  return fields.data.length === 0 ? undefined : { ...fields, data: fields.data.join('\n') }
}

async function within<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`the stream was silent for ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
