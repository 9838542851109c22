// V01 D4 The host of a connection as a statement names it: without secrets, and still comparable with
// the plan.

import { expect, test } from 'vitest'
import { isListed, maskedHost } from '../../shared/plan/egress-hosts.ts'
import { SecretMask } from '../../worker/sandbox/streams/secret-mask.ts'

const masked = (host: string, secret: string, patterns: readonly string[], name = 'token'): string => {
  const mask = new SecretMask({ [name]: secret })
  return maskedHost(patterns, { host, port: 443 }, (text) => mask.text(text))
}

test.each<[name: string, host: string, secret: string, patterns: string[], shown: string]>([
  [
    'in front of a listed name is masked',
    'hunter2hunter2.example.com',
    'hunter2hunter2',
    ['.example.com'],
    '«secret token».example.com',
  ],
  [
    'that is itself a listed name is shown, as the plan shows it',
    'db.example.com',
    'db.example.com',
    ['db.example.com:443'],
    'db.example.com',
  ],
  [
    'that reaches into a listed name is masked up to that name',
    'hunter2.example.com',
    'hunter2.exam',
    ['.example.com'],
    '«secret token».example.com',
  ],
  [
    'in a host that is not listed is masked',
    'hunter2hunter2.evil.example',
    'hunter2hunter2',
    ['.example.com'],
    '«secret token».evil.example',
  ],
  [
    'on another port than the listed one is masked',
    'db.example.com',
    'db.example.com',
    ['db.example.com:80'],
    '«secret token»',
  ],
  [
    'in a listed name that would become too long is masked with all in front of it',
    `${'a.'.repeat(110)}hunter2hunter2.example.com`,
    'hunter2hunter2',
    ['.example.com'],
    '«…».example.com',
  ],
])('V01 a secret %s', (_name, host, secret, patterns, shown) => {
  const name = shown.startsWith('«…»') ? 'x'.repeat(60) : 'token'
  const text = masked(host, secret, patterns, name)
  expect(text).toBe(shown)
  const isThere = isListed(patterns, { host, port: 443 })
  expect(isListed(patterns, { host: text, port: 443 })).toBe(isThere)
})

test('a host without secrets is shown as it is', () => {
  expect(masked('api.example.com', 'hunter2hunter2', ['.example.com'])).toBe('api.example.com')
})
