// A secret is sealed for one tenant, name and version; one that can't be opened counts as missing
// (L6).

import { expect, test } from 'vitest'
import { Sealing } from '../../../edge/secrets/sealing.ts'
import { HYPOTHETICAL_VAULT, openVault } from '../../../edge/secrets/vault.ts'

test('a sealed secret opens only for its own tenant, name and version, and reveals nothing', () => {
  const [key, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const sealing = new Sealing([key], 'one')
  const sealed = sealing.seal('db', 1, 'correct horse')
  const opened = (by: Sealing, name = 'db', version = 1, text = sealed) =>
    by.open({ name, version, sealed: text })
  expect(opened(sealing)).toBe('correct horse')
  expect(sealing.seal('db', 1, 'correct horse')).not.toBe(sealed)
  expect(Buffer.from(sealed, 'base64').toString('latin1')).not.toContain('horse')
  const bytes = Buffer.from(sealed, 'base64')
  const flipped = Array.from(bytes, (byte, at) => Buffer.from(bytes.with(at, byte ^ 1)).toString('base64'))
  const wrong = [
    opened(new Sealing([key], 'two')),
    opened(new Sealing([other], 'one')),
    opened(sealing, 'dc'),
    opened(sealing, 'db', 2),
  ]
  const broken = [...flipped, '', bytes.subarray(0, 20).toString('base64')].map((text) =>
    opened(sealing, 'db', 1, text),
  )
  expect(new Set([...wrong, ...broken])).toEqual(new Set([undefined]))
})

test('T03 a value that was sealed under an earlier key opens, and is sealed again under the current one', () => {
  const [former, current] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const [sealing, alone] = [new Sealing([current, former], 'one'), new Sealing([current], 'one')]
  const secret = {
    name: 'db',
    version: 3,
    sealed: new Sealing([former], 'one').seal('db', 3, 'correct horse'),
  }
  expect([sealing.open(secret), alone.open(secret)]).toEqual(['correct horse', undefined])
  const sealed = sealing.resealed(secret) ?? ''
  expect(alone.open({ ...secret, sealed })).toBe('correct horse')
  expect(sealing.resealed({ ...secret, sealed })).toBeUndefined()
  expect(alone.resealed(secret)).toBeUndefined() // it can't be opened, so it stays
  expect([sealing.hasFormer, alone.hasFormer]).toEqual([true, false])
})

test('L6 a secret that can’t be opened counts as missing; where only policy is asked, all secrets count as present', () => {
  const sealing = new Sealing([Buffer.alloc(32, 1)], 'one')
  const vault = openVault(
    [{ name: 'db', version: 2, sealed: sealing.seal('db', 1, 'correct horse'), tools: ['t'], hosts: null }],
    [],
    sealing,
  )
  expect(vault.withholds({ name: 't', secrets: ['db'] })).toBe('there is no secret `db` for `t`')
  expect(vault.values(['db'])).toBeUndefined()
  expect([
    HYPOTHETICAL_VAULT.withholds({ name: 't', secrets: ['db'] }),
    HYPOTHETICAL_VAULT.values(['db']),
  ]).toEqual([undefined, undefined])
})

test('V03 a tool gets only its own secrets, and one bound to a host only as a credential for that host', () => {
  const sealing = new Sealing([Buffer.alloc(32, 1)], 'one')
  const held = (name: string, hosts: string[] | null) => ({
    name,
    version: 1,
    sealed: sealing.seal(name, 1, 'a value'),
    tools: ['mine'],
    hosts,
  })
  const vault = openVault([held('free', null), held('bound', ['a.example:80'])], [], sealing)
  const credential = (secret: string, host: string) => [{ secret, host, header: 'x-api-key' }]
  expect(
    vault.withholds({ name: 'mine', secrets: ['free'], credentials: credential('bound', 'a.example:80') }),
  ).toBeUndefined()
  const unmet: readonly (readonly [
    name: string,
    wanted: Omit<Parameters<typeof vault.withholds>[0], 'name'>,
  ])[] = [
    ['other', { secrets: ['free'] }],
    ['mine', { secrets: ['bound'] }],
    ['mine', { credentials: credential('bound', 'b.example:80') }],
    ['other', { credentials: credential('bound', 'a.example:80') }],
    ['mine', { secrets: ['absent'] }],
  ]
  for (const [name, wanted] of unmet)
    expect(vault.withholds({ name, ...wanted })).toMatch(/^there is no secret/)
})
