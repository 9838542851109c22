// Promise: whatever the pieces in which a stream comes, what leaves the veil is the same, and holds no value of a secret (V01).

import { expect, test } from 'vitest'
import { formsOf } from '../../shared/secrets.ts'
import { Veil } from '../../worker/sandbox/veil.ts'

const through = (veil: Veil, chunks: readonly Buffer[]): string => {
  const stream = veil.stream()
  return Buffer.concat([...chunks.map((chunk) => stream.take(chunk)), stream.end()]).toString()
}
const inPieces = (text: string, size: number): Buffer[] => {
  const bytes = Buffer.from(text)
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.subarray(i * size, (i + 1) * size))
}

const SECRETS = { token: 'hunter2-hunter2', pin: 'aaaaaaaa', key: 'line one of a longer key\nline two of a longer key\nend' }
const NAMES = /«secret (?:token|pin|key)»/g

test.each([1, 2, 3, 7, 8, 64, 10_000])('V01 in pieces of %i bytes every form is hidden, and nothing else', (size) => {
  const veil = new Veil(SECRETS)
  for (const [name, value] of Object.entries(SECRETS)) {
    expect(through(veil, inPieces(`before ${value} after`, size))).toBe(`before «secret ${name}» after`)
    for (const form of formsOf(value))
      expect(through(veil, inPieces(`before ${form} after`, size)).replace(NAMES, '')).toMatch(/^before [a-zA-Z \n\\]{0,4} after$/)
  }
})

test('V01 values that lie over each other, repeat or break off', () => {
  const veil = new Veil({ pin: 'abababab', token: 'babababacd' })
  for (const text of ['abababab'.repeat(100), 'ababababacd', 'xabababacdx', 'ababababababacdab', 'abababa', 'abababax']) {
    const whole = through(veil, [Buffer.from(text)])
    for (const size of [1, 2, 3, 5, 9]) expect([size, through(veil, inPieces(text, size))]).toEqual([size, whole])
    expect(whole).not.toMatch(/abababab|babababacd/)
  }
  expect(through(veil, [Buffer.from('abababa')])).toBe('abababa')
})

test('what no value may begin with is let through at once, and nothing is held of a stream without secrets', () => {
  const stream = new Veil({ token: 'hunter2-hunter2' }).stream()
  expect(stream.take(Buffer.from('progress 10 %\n')).toString()).toBe('progress 10 %\n')
  expect(stream.take(Buffer.from('so far: hunter2-')).toString()).toBe('so far: ')
  expect(stream.take(Buffer.from('n!')).toString()).toBe('hunter2-n!')
  const chunk = Buffer.from('as it is')
  expect(new Veil().stream().take(chunk)).toBe(chunk)
})

test('a stream of nothing but beginnings holds no more than a value is long', () => {
  const stream = new Veil({ pin: 'a'.repeat(8_192) }).stream()
  let out = 0
  for (let i = 0; i < 20; i++) out += stream.take(Buffer.alloc(8_191, 'a')).length
  out += stream.end().length
  expect(out).toBeLessThan(2_000)
})
