// A form counts as ours only if the browser's headers say so.

import { expect, test } from 'vitest'
import { fromOurPage } from '../../../edge/http/form-origin.ts'

test('P03 behind a TLS proxy a form is accepted only from the public https origin, whatever host the request names', () => {
  const inside = 'http://127.0.0.1:8080/approve/x'
  const from = (headers: Record<string, string>, url = inside) =>
    fromOurPage(new Request(url, { method: 'POST', headers }), 'https://sign.example.com/')
  expect(from({ origin: 'https://sign.example.com', 'sec-fetch-site': 'same-origin' })).toBe(true)
  expect(from({ origin: 'https://sign.example.com' })).toBe(true)
  expect(from({ origin: 'null', 'sec-fetch-site': 'same-origin' })).toBe(true)
  for (const origin of [
    'http://sign.example.com',
    'https://sign.example.com:8443',
    'https://example.com',
    'https://a.sign.example.com',
    '',
  ])
    expect([origin, from({ origin })]).toEqual([origin, false])
  expect(from({ origin: 'https://sign.example.com', 'sec-fetch-site': 'same-site' })).toBe(false)
  expect(from({})).toBe(false)
  for (const origin of ['http://127.0.0.1:8080', 'https://evil.example'])
    expect([origin, from({ origin }, `${origin}/approve/x`)]).toEqual([origin, false])
})

test('P03 a form without an origin is accepted only if the browser reports the same site', () => {
  for (const publicUrl of ['https://sign.example.com/', 'http://127.0.0.1:8080/']) {
    const from = (headers: Record<string, string>) =>
      fromOurPage(
        new Request(`${publicUrl}approve/x`, { method: 'POST', headers: { origin: 'null', ...headers } }),
        publicUrl,
      )
    expect(from({ 'sec-fetch-site': 'same-origin' })).toBe(true)
    for (const site of ['cross-site', 'same-site', 'none'])
      expect([site, from({ 'sec-fetch-site': site })]).toEqual([site, false])
    expect(from({})).toBe(false)
  }
})
