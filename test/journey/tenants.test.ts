// Promise: on the command line, the operator of the installation creates, limits, suspends, resumes
// and deletes a tenant, and its first operator works with the key that was shown once.

import { expect, test } from 'vitest'
import { countersign } from '../support/countersign.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const dev = sharedStack()
const run = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const as = (key: string, ...argv: string[]) =>
  countersign(argv, { env: { COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: key } })

test('D18 the command line creates, limits, suspends, resumes and deletes a tenant', {
  timeout: 300_000,
}, async () => {
  const made = await run('tenants', 'create', 'cli-acme', '--operator', 'alice', '--calls', '10', '--json')
  expect(made.code).toBe(0)
  const { key } = JSON.parse(made.out)
  expect((await as(key, 'operators', 'list')).out).toMatch(/alice\s+admin/)
  expect((await run('tenants', 'list', '--after', 'cli-a')).out).toMatch(/cli-acme\s+active/)
  expect((await run('tenants', 'quota', 'cli-acme', '--workers', '2')).out).toMatch(
    /calls a day\s+10\n.*\nworkers\s+2\n/,
  )
  expect(await run('tenants', 'quota', 'cli-acme')).toMatchObject({ code: 2 })
  expect((await run('tenants', 'show', 'cli-acme')).out).toMatch(/calls today\s+0/)
  expect((await run('tenants', 'usage', 'cli-acme')).out).toMatch(/calls today\s+0\s+10\n/)

  expect((await run('tenants', 'suspend', 'cli-acme', '--reason', 'unpaid')).out).toMatch(/state\s+suspended/)
  expect(await as(key, 'operators', 'list')).toMatchObject({
    code: 1,
    err: expect.stringContaining('has suspended this tenant'),
  })
  expect((await run('tenants', 'resume', 'cli-acme')).out).toMatch(/state\s+active/)
  expect(await run('tenants', 'delete', 'cli-acme', 'cli-acme')).toMatchObject({
    code: 1,
    err: expect.stringContaining('suspend it first: `countersign tenants suspend cli-acme`'),
  })
  expect((await run('tenants', 'suspend', 'cli-acme')).code).toBe(0)
  expect(await run('tenants', 'delete', 'cli-acme', 'cli-acm')).toMatchObject({ code: 2 })
  expect((await run('tenants', 'delete', 'cli-acme', 'cli-acme')).out).toMatch(/state\s+deleted/)
  expect((await as(key, 'operators', 'list')).code).toBe(1)
  for (const words of [
    ['resume', 'cli-acme'],
    ['create', 'cli-acme'],
  ])
    expect(await run('tenants', ...words)).toMatchObject({
      code: 1,
      err: expect.stringContaining('was deleted, and its name can’t be used again'),
    })
})

test('`keys list` fetches the keys of the tenant of COUNTERSIGN_KEY, or of the one given with --tenant', {
  timeout: 120_000,
}, async () => {
  const { key } = JSON.parse((await run('tenants', 'create', 'cli-keys', '--json')).out)
  const tenantIn = ({ out }: { out: string }) => JSON.parse(out).tenant
  expect(tenantIn(await as(key, 'keys', 'list'))).toBe('cli-keys')
  expect(tenantIn(await as(key, 'keys', 'list', '--tenant', 'default'))).toBe('default')
  expect(tenantIn(await run('keys', 'list', '--tenant', 'cli-keys'))).toBe('cli-keys')
  expect(tenantIn(await run('keys', 'list'))).toBe('default')
})

test('a quota that is not written in digits is refused and not converted to a number', {
  timeout: 120_000,
}, async () => {
  for (const calls of ['', ' ', '0x10', '1e3', '-1', '1.5']) {
    const ran = await run('tenants', 'quota', 'default', `--calls=${calls}`)
    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining('must be a whole number in digits') })
  }
})

test('an operator’s key can’t manage tenants, the installation key can’t do anything else, and the CLI refuses each before it is sent', {
  timeout: 120_000,
}, async () => {
  const wrong = await as(dev.operator_key, 'tenants', 'list')
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('needs the installation’s key') })
  const other = await as(dev.installation_key, 'operators', 'list')
  expect(other).toMatchObject({
    code: 2,
    err: expect.stringContaining('COUNTERSIGN_KEY is the installation’s'),
  })
  expect((await as(dev.installation_key, 'tenants', 'list')).out).toMatch(/default\s+active/)
  expect((await as(dev.operator_key, 'tenants', 'usage')).out).toMatch(/^default\s+used\s+quota\n/)
  expect(await as(dev.operator_key, 'tenants', 'usage', 'default')).toMatchObject({ code: 2 })
})
