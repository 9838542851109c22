// Output is counted and digested whole and kept up to its cap. It can neither block the worker nor
// fill its memory.

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OutputCapture, type OutputChunk } from '../../../worker/sandbox/streams/output-capture.ts'
import { Arena, attack, planOf } from '../arena/arena.ts'

let arena: Arena
beforeAll(async () => {
  arena = await Arena.open()
})
afterAll(() => arena.close())

const sha256 = (text: string): string => createHash('sha256').update(text, 'latin1').digest('hex')
const TIERS = ['B', 'C'] as const

test('S31 a call that floods its output is killed with the outcome `output_cap`, and its output is cut', async () => {
  for (const tier of TIERS) {
    const started = performance.now()
    const seen = await arena.launch({ plan: planOf(['yes'], { tier, limits: { output_bytes: 4_096 } }) })
    expect(seen.outcome, tier).toEqual({ kind: 'output_cap' })
    expect(performance.now() - started).toBeLessThan(20_000)
    expect(seen.stdout).toMatchObject({ kept: 4_096, truncated: true })
    expect(seen.stdout.bytes).toBeGreaterThan(8 * 4_096)
    expect(seen.stdout.bytes).toBeLessThan(4 * 1024 * 1024)
    expect(seen.out).toHaveLength(4_096)
  }
  const loud = await arena.launch({
    plan: planOf(['sh', '-c', 'yes >&2'], { limits: { output_bytes: 100 } }),
  })
  expect([loud.outcome.kind, loud.stdout.bytes, loud.err.length]).toEqual(['output_cap', 0, 100])
})

test('S31 without the cap: all output reaches the worker', async () => {
  const flood = planOf(['sh', '-c', 'yes | head -c 3000000'], { limits: { output_bytes: 4_096 } })
  expect((await arena.bare({ plan: flood })).out).toHaveLength(3_000_000)
  expect((await arena.launch({ plan: flood })).out).toHaveLength(4_096)
})

test('the head and the tail of an overlong stream are kept, and the digest covers all of it', async () => {
  const text = Array.from({ length: 5_000 }, (_, n) => `line ${n}\n`).join('')
  const source = "print(''.join('line %d\\n' % n for n in range(5000)), end=''); sys.exit()"
  const seen = await arena.launch({ plan: planOf(attack(source), { limits: { output_bytes: 8_000 } }) })
  expect(seen.outcome).toEqual({ kind: 'exit', code: 0 })
  expect(seen.stdout).toEqual({ bytes: text.length, sha256: sha256(text), kept: 8_000, truncated: true })
  expect(seen.out).toBe(text.slice(0, 6_000) + text.slice(-2_000))
})

test('output is passed on unchanged: escapes, no newline, invalid UTF-8, NUL', async () => {
  const bytes = `\u001b]0;title\u0007\u001b[2J\u0000\u00ff\u00fe\r\u009b${'x'.repeat(50_000)}`
  const source = 'os.write(1, sys.stdin.buffer.read()); os._exit(0)'
  const seen = await arena.launch({ plan: planOf(attack(source)), stdin: bytes })
  expect(seen.out === bytes).toBe(true)
  expect(seen.stdout).toEqual({
    bytes: bytes.length,
    sha256: sha256(bytes),
    kept: bytes.length,
    truncated: false,
  })
})

test('output arrives while the tool runs', async () => {
  let first: number | undefined
  const plan = planOf(['sh', '-c', 'echo first; sleep 0.4; echo second'])
  const seen = await arena.launch({ plan }, () => {
    first ??= Date.now()
  })
  expect(seen.out).toBe('first\nsecond\n')
  expect(seen.ended_at_ms - (first ?? 0)).toBeGreaterThan(300)
})

/** Tests the rule alone: the sizes of the chunks don't matter. */
test('the kept output does not depend on the chunks in which it arrived', () => {
  const text = Buffer.from(Array.from({ length: 997 }, (_, n) => n % 251))
  for (const cap of [1, 2, 3, 4, 7, 100, 101, 333, 996, 997, 998, 5_000]) {
    for (const size of [1, 2, 3, 10, 64, 250, 996, 997]) {
      const chunks: OutputChunk[] = []
      const capture = new OutputCapture(
        'stdout',
        cap,
        (chunk) => chunks.push({ ...chunk, bytes: Buffer.from(chunk.bytes) }),
        () => undefined,
      )
      for (let at = 0; at < text.length; at += size) capture.take(text.subarray(at, at + size))
      const summary = capture.finish()
      const head = cap - Math.floor(cap / 4)
      const wanted =
        cap >= text.length
          ? text
          : Buffer.concat([text.subarray(0, head), text.subarray(text.length - (cap - head))])
      expect(
        Buffer.concat(chunks.map(({ bytes }) => bytes)).equals(wanted),
        `cap ${cap}, chunks of ${size}`,
      ).toBe(true)
      for (const { offset, bytes } of chunks)
        expect(text.subarray(offset, offset + bytes.length).equals(bytes)).toBe(true)
      expect(summary).toEqual({
        bytes: 997,
        sha256: createHash('sha256').update(text).digest('hex'),
        kept: Math.min(cap, 997),
        truncated: cap < 997,
      })
    }
  }
})
