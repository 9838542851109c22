// Promise: a server that a worker starts may write a bounded number of bytes in one call.

import { expect, test } from 'vitest'
import { ServerSession } from '../../../worker/upstreams/session.ts'

const ANSWER = `${JSON.stringify({ jsonrpc: '2.0', id: 'one', result: {} })}\n`

/** The answer of a server that writes this many bytes; the last chunk holds the answer. */
async function answerWithin(bytes: number): Promise<string> {
  const MiB = 1024 * 1024
  const note = (length: number) => `${JSON.stringify({ jsonrpc: '2.0', method: 'n' }).padEnd(length - 1)}\n`
  async function* output(): AsyncGenerator<Uint8Array> {
    let left = bytes - ANSWER.length
    for (; left > 2 * MiB; left -= MiB) yield Buffer.from(note(MiB))
    yield Buffer.from(note(left) + ANSWER)
  }
  const session = new ServerSession({ write: () => undefined, output: output() })
  const answered = await session.request('one', '{}')
  return answered.ok ? answered.value.kind : answered.error.why
}

test('U08 a server that has written more than 16 MiB in one call (`stdio_bytes`) is not read further', async () => {
  expect(await answerWithin(16_777_216)).toBe('result')
  expect(await answerWithin(16_777_217)).toBe('the server wrote more than a call may')
})
