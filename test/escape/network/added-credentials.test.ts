// The proxy adds a credential only to requests to exactly its host and port, in the way that the
// plan names (V04).

import { expect, test } from 'vitest'
import { additionsFor, additionsOf, headersOf } from '../../../worker/sandbox/network/credentials.ts'
import { planOf } from '../arena/arena.ts'

const plan = planOf(['true'], {
  egress: { mode: 'strict', hosts: ['api.example.com:80', 'api.example.com:443'] },
  credentials: [
    { secret: 'plain', host: 'api.example.com:80', header: 'x-api-key' },
    {
      secret: 'inside',
      host: 'api.example.com:443',
      header: 'authorization',
      format: 'Bearer {}',
      tls: 'intercept',
    },
  ],
})
const additions = additionsOf(plan, { plain: 'one', inside: '$& two\n', other: 'three' })
const secretsFor = (host: string, port: number, over: 'plain' | 'tls'): string[] =>
  additionsFor(additions, { host, port }, over).map(({ secret }) => secret)

test('V04 a credential for TLS is never added to plain HTTP, and one for plain HTTP never inside TLS', () => {
  expect([secretsFor('api.example.com', 443, 'tls'), secretsFor('api.example.com', 443, 'plain')]).toEqual([
    ['inside'],
    [],
  ])
  expect([secretsFor('api.example.com', 80, 'plain'), secretsFor('api.example.com', 80, 'tls')]).toEqual([
    ['plain'],
    [],
  ])
})

test('V04 a credential is added only for its own host and port, not for a subdomain or another port', () => {
  for (const over of ['plain', 'tls'] as const) {
    for (const host of [
      'example.com',
      'a.api.example.com',
      'api.example.com.evil.example',
      'api.example.co',
      '',
    ])
      for (const port of [80, 443])
        expect([host, port, secretsFor(host, port, over)]).toEqual([host, port, []])
    for (const port of [8080, 8443, 0]) expect(secretsFor('api.example.com', port, over)).toEqual([])
  }
})

test('V04 a header holds the value in exactly its format, and only secrets that a credential names are added', () => {
  expect(headersOf(additions)).toEqual({ 'x-api-key': 'one', authorization: 'Bearer $& two' })
  expect(additionsOf(plan, { inside: 'two' }).map(({ secret }) => secret)).toEqual(['inside'])
})
