// Promise: redaction finds secrets next to their name and split over several places, and hides
// nothing after the end of a secret.

import { expect, test } from 'vitest'
import { HIDDEN, redact, SECRET, shown } from './redacted.ts'

test.each([
  ['a setting', { env: [{ name: 'DB_PASSWORD', value: SECRET }] }],
  ['a header', { headers: [{ key: 'Authorization', value: SECRET }] }],
  [
    'a list of headers',
    {
      headers: [
        ['Accept', 'text/plain'],
        ['X-Api-Key', SECRET],
      ],
    },
  ],
  ['JSON', { body: JSON.stringify([{ Name: 'DB_PASSWORD', Value: SECRET }]) }],
  ['a user with a password', { args: ['-u', `admin:${SECRET}`] }],
])('V02 a secret in a name-value pair is hidden: %s', (_name, args) => {
  expect(shown(args)).not.toContain(SECRET)
  expect(shown(args)).toMatch(HIDDEN)
})

test('V02 a secret that is split over list items is hidden in each of them, and nothing else is', () => {
  const key = [
    `-----BEGIN ${'RSA'} PRIVATE KEY-----`,
    'MIIabcdefghijklmnop',
    'qrstuv',
    '-----END RSA PRIVATE KEY-----',
  ]
  const marks = (count: number) =>
    Array.from({ length: count }, () => expect.stringMatching(/^«redacted[^»]*»$/))
  expect(redact(['a', ...key, 'rm -rf /'])).toEqual(['a', ...marks(4), 'rm -rf /'])
  expect(redact([...key.slice(0, 2), 'rm -rf /'])).toEqual([...marks(2), 'rm -rf /'])
  expect(redact(['x ', `eyJ${'a'.repeat(20)}`, `.${'b'.repeat(20)}.`, 'c c'])).toEqual([
    'x ',
    ...marks(2),
    expect.anything(),
  ])
  expect(redact([`ghp_${'a'.repeat(36)}`, 'install'])).toEqual([...marks(1), 'install'])
})

test('V02 a secret in base64 over several lines is hidden', () => {
  const lines = Buffer.from(`${'an ordinary line of settings\n'.repeat(3)}pass`)
    .toString('base64')
    .slice(0, 76)
  const encoded = `${Buffer.from('user=someone-or-other\npass').toString('base64').replace(/=+$/, '')}`
  const whole = Buffer.from(`user=someone-or-other-who-is-long-enough\npassword=${SECRET}\n`).toString(
    'base64',
  )
  const broken = whole.match(/.{1,56}/g)?.join('\n') ?? ''
  expect(shown({ text: broken })).toMatch(/^{"text":"«redacted[^»]*»"}$/)
  expect(redact({ text: `${lines}\n${encoded}` })).toEqual({ text: `${lines}\n${encoded}` })
})

test.each([
  ['https://u:p@evil.example/x?@good.example', 'evil.example/x?@good.example'],
  ['https://evil.example:443/x@good.example', 'evil.example:443/x@good.example'],
  ['https://evil.example:/x@good.example', 'evil.example:/x@good.example'],
  ['curl -H Authorization:hunter2hunter2; rm -rf /', '; rm -rf /'],
  ['curl -H Authorization:hunter2hunter2 https://evil.example', ' https://evil.example'],
  ['Cookie: a=1; b=2; rm -rf /', '; rm -rf /'],
  ['Cookie: a=1 && rm -rf /', ' && rm -rf /'],
  ['password = x && rm -rf /', ' && rm -rf /'],
  ["mysql --password hunter2 -e 'DROP TABLE a'", "-e 'DROP TABLE a'"],
  ['pin=4711;rm -rf /', ';rm -rf /'],
])('text after a secret, or that only looks like part of one, stays readable: %s', (text, rest) =>
  expect((redact({ text }) as { text: string }).text).toContain(rest),
)

test('ordinary name-value pairs and lists of names stay readable', () => {
  for (const value of [
    { name: 'region', value: 'eu' },
    { fields: ['token', 'name'] },
    ['-u', '1000:1000'],
    { key: 'monkey', value: 'business' },
    ['sk-', 'learn'],
  ])
    expect(redact(value)).toEqual(value)
})

test.each([
  ['a text', `curl --proxy-user 'admin:${SECRET}' https://example.com`],
  ['a text, with `=`', `curl --proxy-user=admin:${SECRET} https://example.com`],
  ['a list', ['curl', '--proxy-user', `admin:${SECRET}`, 'https://example.com']],
])(
  'D11 V02 in a command line that is %s, the password for a proxy is hidden and its user is not',
  (_name, args) => {
    const text = JSON.stringify(redact({ args }))
    expect(text).not.toContain(SECRET)
    expect(text).toMatch(/admin:«redacted, mark [0-9a-f]{16}»/)
  },
)

test('a list with an object that can’t be converted to a text is shown as it is', () => {
  const args = ['ls', { toString: 5, valueOf: 5 }, 'admin:password']
  expect(redact({ args })).toEqual({ args })
})
