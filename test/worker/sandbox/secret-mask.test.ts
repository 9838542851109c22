// However a stream is cut, its masked form is the same and contains no value of a secret in any
// encoding that docs/keys-and-secrets.md names (V01). The encoded values here were produced by
// other programs.

import { expect, test } from 'vitest'
import { SecretMask } from '../../../worker/sandbox/streams/secret-mask.ts'
import { seeded } from '../../shared/random-json.ts'

const through = (mask: SecretMask, chunks: readonly Buffer[]): string => {
  const stream = mask.stream()
  return Buffer.concat([...chunks.map((chunk) => stream.take(chunk)), stream.end()]).toString()
}
const inPieces = (text: string, size: number): Buffer[] => {
  const bytes = Buffer.from(text)
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )
}

const VALUE = `p@ss/W0rd+"x"'&<é> 50%41!`
/** Produced by python3 (urllib, json, html, base64, bytes), GNU coreutils, xxd and bash. */
const WRITTEN = {
  'plain text': VALUE,
  quote: 'p%40ss/W0rd%2B%22x%22%27%26%3C%C3%A9%3E%2050%2541%21',
  'quote, nothing safe': 'p%40ss%2FW0rd%2B%22x%22%27%26%3C%C3%A9%3E%2050%2541%21',
  quote_plus: 'p%40ss%2FW0rd%2B%22x%22%27%26%3C%C3%A9%3E+50%2541%21',
  encodeURIComponent: "p%40ss%2FW0rd%2B%22x%22'%26%3C%C3%A9%3E%2050%2541!",
  'percent in lower case': 'p%40ss%2fW0rd%2b%22x%22%27%26%3c%c3%a9%3e%2050%2541%21',
  JSON: `p@ss/W0rd+\\"x\\"'&<\\u00e9> 50%41!`,
  'JSON, other escapes': `p@ss\\/W0rd\\u002B\\"x\\"\\u0027\\u0026\\u003c\\u00E9\\u003e 50%41!`,
  'JSON in JSON': `p@ss/W0rd+\\\\\\"x\\\\\\"'&<\\\\u00e9> 50%41!`,
  HTML: 'p@ss/W0rd+&quot;x&quot;&#x27;&amp;&lt;é&gt; 50%41!',
  'HTML, ASCII': 'p@ss/W0rd+&quot;x&quot;&#39;&amp;&lt;&#233;&gt; 50%41!',
  'printf %q': `p@ss/W0rd+\\"x\\"\\'\\&\\<é\\>\\ 50%41\\!`,
  'bytes as python prints them': `p@ss/W0rd+"x"\\'&<\\xc3\\xa9> 50%41!`,
  'hex by xxd -p -c 7': '704073732f5730\n72642b22782227\n263cc3a93e2035\n3025343121',
  'hex in capitals': '704073732F573072642B22782227263CC3A93E20353025343121',
  'hex with colons': '70:40:73:73:2f:57:30:72:64:2b:22:78:22:27:26:3c:c3:a9:3e:20:35:30:25:34:31:21',
  'hex with dashes': '70-40-73-73-2F-57-30-72-64-2B-22-78-22-27-26-3C-C3-A9-3E-20-35-30-25-34-31-21',
  'od -tx1': '70 40 73 73 2f 57 30 72 64 2b 22 78 22 27 26 3c\n c3 a9 3e 20 35 30 25 34 31 21',
  'od -tu1':
    '112  64 115 115  47  87  48 114 100  43  34 120  34  39  38  60\n 195 169  62  32  53  48  37  52  49  33',
  'xxd -i': `0x70, 0x40, 0x73, 0x73, 0x2f, 0x57, 0x30, 0x72, 0x64, 0x2b, 0x22, 0x78,
  0x22, 0x27, 0x26, 0x3c, 0xc3, 0xa9, 0x3e, 0x20, 0x35, 0x30, 0x25, 0x34,\n  0x31, 0x21`,
  'octal escapes': '\\160\\100\\163\\163/\\127\\060\\162\\144+\\042x\\042\\047&<\\303\\251>\\04050%41!',
  'list(bytes)':
    '112, 64, 115, 115, 47, 87, 48, 114, 100, 43, 34, 120, 34, 39, 38, 60, 195, 169, 62, 32, 53, 48, 37, 52, 49, 33',
  base64: 'cEBzcy9XMHJkKyJ4IicmPMOpPiA1MCU0MSE',
  'base64 -w 10': 'cEBzcy9XMH\nJkKyJ4Iicm\nPMOpPiA1MC\nU0MSE',
  'base64 in JSON, in a URL': 'cEBzcy9XMH\\nJkKyJ4%49icm\\r\\nPMOpPiA1MC\\nU0MSE',
}

test.each(Object.entries(WRITTEN))(
  'V01 a secret as %s is masked, however the stream is cut',
  (_name, spelled) => {
    const mask = new SecretMask({ token: VALUE })
    for (const size of [1, 2, 3, 7, 64, 10_000])
      expect(through(mask, inPieces(`<${spelled}>`, size))).toBe('<«secret token»>')
  },
)

const LINES = [
  'line one of a longer key',
  'line two of a longer key, a good deal longer than what is looked for at once',
  'end',
]
const ENCODERS: readonly ((bytes: Buffer, random: () => number) => string)[] = [
  (bytes) => bytes.toString('hex'),
  (bytes) => bytes.toString('base64'),
  (bytes) => bytes.toString('base64url'),
  (bytes) => bytes.toString('base64').replace(/.{64}/g, '$&\n'),
  (bytes) => bytes.toString('base64').replace(/.{76}/g, '$&\r\n'),
  (bytes) => encodeURIComponent(bytes.toString('base64')),
  (bytes) => encodeURIComponent(bytes.toString()),
  (bytes) => new URLSearchParams({ v: bytes.toString() }).toString().slice(2),
  (bytes) => JSON.stringify(bytes.toString()),
  (bytes) => [...bytes].join(', '),
  (bytes) => bytes.toString('hex').replace(/../g, '$& ').toUpperCase(),
  (bytes) => JSON.stringify(JSON.stringify([bytes.toString(), bytes.toString('base64')])),
  (bytes, random) =>
    [...bytes]
      .map((byte) => (random() < 0.5 ? `%${byte.toString(16).padStart(2, '0')}` : `&#${byte};`))
      .join(''),
]
const randomText = (random: () => number, length: number): string =>
  Array.from({ length }, () => String.fromCharCode(32 + Math.floor(random() * 95))).join('')

test('V01 random secrets in other programs’ encodings within other text are masked wholly, wherever the stream is cut', () => {
  for (let seed = 0; seed < 300; seed++) {
    const random = seeded(seed)
    const value = `W0rd-50!${randomText(random, Math.floor(random() * (seed % 10 === 0 ? 600 : 40)))}`
    const [before, after] = [randomText(random, seed % 4), randomText(random, seed % 5)]
    const mask = new SecretMask({ token: value })
    for (const [n, encode] of ENCODERS.entries()) {
      const alone = encode(Buffer.from(value), random)
      const text = encode(Buffer.from(`${before}${value}${after}`), seeded(seed))
      const [whole, cut] = [
        through(mask, [Buffer.from(text)]),
        through(mask, inPieces(text, 1 + Math.floor(random() * 20))),
      ]
      expect(cut, `seed ${seed}, encoder ${n}: cut`).toBe(whole)
      expect(whole, `seed ${seed}, encoder ${n}`).toContain('«secret token»')
      const left = whole.replaceAll('«secret token»', '\n')
      for (let at = 0; at + 16 <= alone.length; at += 5)
        expect(left, `seed ${seed}, encoder ${n}`).not.toContain(alone.slice(at, at + 16))
    }
  }
})

test('V01 text without a secret passes the mask unchanged, whatever it looks like', () => {
  const random = seeded(7)
  const mask = new SecretMask({ token: 'hunter2-hunter2', key: LINES.join('\n') })
  for (let i = 0; i < 200; i++) {
    const text = `${randomText(random, 300)} %4 \\u00 &#x &amp 0x \\ ${'%41'.repeat(3)} 104, 117, 110 ${'aHVu'.repeat(3)}\n`
    expect(through(mask, inPieces(text, 1 + Math.floor(random() * 40)))).toBe(text)
  }
})

test('V01 single lines and partial lines of a longer secret are masked, even if indented', () => {
  const mask = new SecretMask({ key: LINES.join('\n') })
  expect(mask.text(`before ${LINES.join('\n')} after`)).toBe('before «secret key»\n«secret key» after')
  expect(mask.text(`key: |\r\n    ${LINES.join('\r\n    ')}\r\nother: 1`)).toBe(
    'key: |\r\n    «secret key»\r\n    «secret key»\r\nother: 1',
  )
  for (const line of LINES.slice(0, 2)) expect(mask.text(`1 ${line} 2`)).toBe('1 «secret key» 2')
  expect(mask.text(`${LINES[1]?.slice(-40)}\n`)).toMatch(/^.{0,9}«secret key»\n$/)
})

test('V01 overlapping, repeated and truncated secrets are masked', () => {
  const mask = new SecretMask({ pin: 'abababab', token: 'babababacd' })
  for (const text of [
    'abababab'.repeat(100),
    'ababababacd',
    'xabababacdx',
    'ababababababacdab',
    'abababa',
    'abababax',
  ]) {
    const whole = through(mask, [Buffer.from(text)])
    for (const size of [1, 2, 3, 5, 9])
      expect([size, through(mask, inPieces(text, size))]).toEqual([size, whole])
    expect(whole).not.toMatch(/abababab|babababacd/)
  }
  expect(through(mask, [Buffer.from('abababa')])).toBe('abababa')
})

test('text that can’t begin a secret passes the mask at once, and a stream without secrets is never held back', () => {
  const stream = new SecretMask({ token: 'hunter2-hunter2' }).stream()
  expect(stream.take(Buffer.from('progress 10 %\n')).toString()).toBe('progress 10 %\n')
  expect(stream.take(Buffer.from('so far: hunter2-')).toString()).toBe('so far: ')
  expect(stream.take(Buffer.from('n!')).toString()).toBe('hunter2-n!')
  const chunk = Buffer.from('as it is')
  expect(new SecretMask().stream().take(chunk)).toBe(chunk)
})

test('a stream of mere beginnings of a secret holds back at most the longest encoding of one piece', () => {
  const stream = new SecretMask({ pin: 'a'.repeat(8_192) }).stream()
  let out = 0
  for (let i = 0; i < 20; i++) out += stream.take(Buffer.alloc(8_191, 'a')).length
  out += stream.end().length
  expect(out).toBeLessThan(2_000)
  const dragging = new SecretMask({ token: 'hunter2-hunter2' }).stream()
  expect(dragging.take(Buffer.from(`hun${' '.repeat(5_000)}`)).length).toBeGreaterThan(3_000)
})

test('masking a hundred secrets of the greatest length costs about as much as masking one', {
  timeout: 60_000,
}, () => {
  const random = seeded(1)
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`s${i}`, randomText(random, 8_192)]))
  const text = Buffer.from(randomText(random, 50_000))
  const spent = (secrets: Record<string, string>): number => {
    const mask = new SecretMask(secrets)
    const from = process.cpuUsage()
    expect(through(mask, [text])).toBe(text.toString())
    const { user, system } = process.cpuUsage(from)
    return user + system
  }
  expect(spent(many)).toBeLessThan(40 * spent({ one: many['s0'] ?? '' }))
})
