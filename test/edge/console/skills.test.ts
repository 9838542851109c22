// Skills in the console: an operator other than the publisher reads a version's permissions and
// warnings and enables it. Others get no buttons, and forged forms do nothing.

import { describe, expect, test } from 'vitest'
import { accessibilityDefects } from '../../support/browser/axe.ts'
import { browserForTests } from '../../support/browser/browser.ts'
import { DESK, PHONE, signedIn, smallControls } from '../../support/browser/console-page.ts'
import { ConsoleSession } from '../../support/browser/console-session.ts'
import { faintTexts, focused, sideways } from '../../support/browser/in-page.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { component, type PackageExtras, Publisher, type Unbound } from '../../support/skills/skill.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('console-skills', sharedStack())
const acme = await Publisher.listed('console-skills-acme', fixtures.root)
const [maker, reviewer, auditor] = await Promise.all([
  fixtures.operator(['admin']),
  fixtures.operator(['admin']),
  fixtures.operator(['auditor']),
])
const plain = await component()
const browser = await browserForTests()

const LIST = '/console/skills'
const pathOf = (id: string, version = '1.0.0') => `${LIST}/${id}/${version}`
const HTTP = { hosts: ['api.example.com:443'], methods: ['GET' as const, 'POST' as const] }

async function published(
  id: string,
  change: Partial<Unbound> = {},
  told: PackageExtras = {},
): Promise<string> {
  const { version } = unwrap(
    await maker.client('publishSkill', { body: acme.pack(acme.manifest(id, change), plain, told) }),
  )
  return pathOf(id, version)
}
const openConsole = (path: string, key = reviewer.key, options: Parameters<typeof signedIn>[2] = {}) =>
  signedIn(browser, { url: fixtures.url, path, key }, options)
const stateOf = async (id: string, version = '1.0.0') =>
  unwrap(await fixtures.root('readSkill', { params: { id, version } })).state

describe.each([
  ['a phone', PHONE, 'dark'],
  ['a desk', DESK, 'light'],
] as const)('on %s, without JavaScript', (_, viewport, colorScheme) => {
  test('a skill version is enabled, rolled back, disabled and revoked in the console, each with a recorded reason', async () => {
    const id = fixtures.name()
    const path = await published(id, { description: 'asks <b>things</b>' })
    const page = await openConsole(LIST, reviewer.key, { viewport, colorScheme })
    await page.goto(new URL(`${LIST}?after=${id}@0`, fixtures.url).href)
    await page.locator(`#${id} h2 a`).click()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(`${id} 1.0.0`)
    expect(await page.getByRole('status').textContent()).toBe('quarantined')
    expect(await page.locator('main').textContent()).toContain('asks <b>things</b>')
    await page.getByRole('textbox', { name: 'Reason' }).fill('looked at it')
    await page.getByRole('button', { name: 'Enable' }).click()
    expect(await page.getByRole('status').textContent()).toBe('enabled')
    expect(await page.getByText(/enabled by .*looked at it/).textContent()).toContain(reviewer.name)

    const next = await published(id, { version: '1.1.0', capabilities: { http: HTTP, log: true } })
    await page.goto(new URL(next, fixtures.url).href)
    expect(await page.locator('#powers + ul').textContent()).toMatch(
      /Sends requests to api.example.com:443 \(GET, POST\)new.*Writes to the log of its call(?!new)/,
    )
    expect(await page.getByText('Compared with 1.0.0').textContent()).toMatch(
      /it asks for the permissions marked as new, and no longer for:/,
    )
    expect(await page.locator('#powers ~ ul.quiet li').allTextContents()).toEqual([
      'Reads the clock',
      'Gets random bytes',
      'Runs run, shown as low risk, without approval',
    ])
    await page.getByRole('button', { name: 'Enable' }).click()
    await page.getByRole('button', { name: 'Roll back to 1.0.0' }).click()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe(`${id} 1.0.0`)
    expect([await stateOf(id), await stateOf(id, '1.1.0')]).toEqual(['enabled', 'disabled'])

    await page.getByRole('button', { name: 'Disable' }).click()
    expect(await page.getByRole('status').textContent()).toBe('disabled')
    await page.getByText('Revoke for good').click()
    await page.getByRole('button', { name: 'Revoke' }).click()
    expect(await page.getByRole('status').textContent()).toBe('revoked')
    expect(await page.locator('button[formaction], form[action$=disable]').count()).toBe(0)
    expect(await page.goto(new URL(path, fixtures.url).href).then((answer) => answer?.status())).toBe(200)
  })

  test('the skill pages pass axe, have enough contrast, don’t scroll sideways and have large enough controls', async () => {
    const id = `${fixtures.name()}-${'x'.repeat(24)}`
    const many = Array.from({ length: 12 }, (_, i) => ({
      name: `tool-${i}`,
      description: 'y'.repeat(500),
      input_schema: { type: 'object' },
    }))
    const capabilities = {
      http: { hosts: ['.example.com', 'api.example.com:80'], methods: ['GET' as const] },
      kv: [''],
      secrets: ['token'],
    }
    const path = await published(id, { tools: many, capabilities, wildcards: ['http', 'kv'] })
    const page = await openConsole(path, reviewer.key, { viewport, colorScheme, javaScriptEnabled: true })
    for (const [name, at] of [
      ['one', path],
      ['list', LIST],
    ] as const) {
      await page.goto(new URL(at, fixtures.url).href)
      expect([name, await accessibilityDefects(page)]).toEqual([name, []])
      expect([name, await page.evaluate(faintTexts)]).toEqual([name, []])
      const touched = 'button, summary, textarea, nav a, .back, h2 a, ul.versions a'
      expect([name, await smallControls(page, touched)]).toEqual([name, []])
      expect([name, await page.evaluate(sideways, '200%')]).toEqual([name, 0])
    }
  })
})

test('a version that drops the mark `sensitive` says so, and lists what the enabled one has in addition', async () => {
  const id = fixtures.name()
  const run = { name: 'run', description: 'does it', input_schema: { type: 'object' } }
  await published(id, { tools: [{ ...run, sensitive: true }] })
  unwrap(await reviewer.client('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  const page = await openConsole(
    await published(id, { version: '1.1.0', tools: [run], limits: { timeout_ms: 9_000 } }),
  )
  expect(await page.locator('#powers + ul li:has(.tag)').allTextContents()).toEqual([
    'Runs run, shown as low risk, without approvalnew',
    'Takes up to 9 s for a callnew',
  ])
  expect(await page.locator('#powers ~ .alert').allTextContents()).toEqual([
    'In 1.0.0 run is marked as sensitive, and here it is not: nobody is asked before it runs, unless policy requires it.',
  ])
  expect(await page.locator('#powers ~ ul.quiet li').allTextContents()).toEqual([
    'Runs run, shown as medium risk, after a human has approved',
  ])
})

test('on a skill’s page revoking comes last in keyboard order and is folded', async () => {
  const id = fixtures.name()
  const path = await published(id)
  unwrap(await reviewer.client('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  const page = await openConsole(path)
  const order: string[] = []
  for (let i = 0; i < 13; i++) {
    await page.keyboard.press('Tab')
    const { element, outline } = await page.evaluate(focused)
    expect([element, outline]).toEqual([element, 'solid'])
    order.push(element)
  }
  expect(order.slice(7)).toEqual([
    'A Back to the skills',
    'SUMMARY Schemas of run',
    'SUMMARY Digests',
    'TEXTAREA',
    'BUTTON Disable',
    'SUMMARY Revoke for good',
  ])
  expect(await page.getByRole('link', { name: 'Skills', exact: true }).count()).toBe(1)
})

test('a skill’s page shows warnings, parts, signer, publisher and all digests', async () => {
  const id = fixtures.name()
  const HOSTILE = '<script>alert(1)</script> \u202e'
  const sbom = { components: [{ name: HOSTILE, version: '4.2.0' }] }
  const path = await published(id, { capabilities: { secrets: ['token'] }, description: HOSTILE }, { sbom })
  const skill = unwrap(await fixtures.root('readSkill', { params: { id, version: '1.0.0' } }))
  const page = await openConsole(path, auditor.key)
  const text = (await page.locator('main').textContent()) ?? ''
  for (const said of [
    'Reads the secret token',
    'unused_capability',
    'reads_secret',
    `published by ${maker.name}`,
    `console-skills-acme, with the key ${acme.signer.kid}`,
    '<script>alert(1)</script> \\u{202e} 4.2.0',
    skill.digest,
    skill.component.sha256,
    skill.contents.sbom.sha256,
    skill.contents.provenance.sha256,
    ...skill.modules.map(({ sha256 }) => sha256),
  ])
    expect(text).toContain(said)
  expect(text).not.toContain('\u202e')
  expect(await page.locator('main script').count()).toBe(0)
  expect(text).toContain('You may read skills but not change them.')
})

test('the publisher of a version sees that somebody else has to enable it', async () => {
  const path = await published(fixtures.name())
  const page = await openConsole(path, maker.key)
  expect(await page.getByText('You published this version, so somebody else has to enable it.').count()).toBe(
    1,
  )
  expect(await page.getByRole('button', { name: 'Enable' }).count()).toBe(0)
})

test('a denied part is shown on an enabled version and prevents enabling another one', async () => {
  const [running, waiting] = [fixtures.name(), fixtures.name()]
  const sbom = { components: [{ name: 'console-skills-part', version: '1.0.0\u202e' }] }
  for (const id of [running, waiting]) await published(id, {}, { sbom })
  unwrap(await reviewer.client('enableSkill', { params: { id: running, version: '1.0.0' }, body: {} }))
  unwrap(
    await fixtures.root('putDeniedParts', {
      body: { items: [{ pattern: 'console-skills-part@*', reason: 'it leaks' }] },
    }),
  )
  try {
    const page = await openConsole(`${LIST}?after=${running}@0`)
    expect(await page.locator(`#${running} .alert`).textContent()).toContain(
      'It contains console-skills-part@1.0.0\\u{202e}: it leaks',
    )
    await page.goto(new URL(pathOf(waiting), fixtures.url).href)
    expect(await page.locator('.alert').textContent()).toContain('it leaks')
    expect(await page.getByRole('button', { name: 'Enable' }).count()).toBe(0)
  } finally {
    unwrap(await fixtures.root('putDeniedParts', { body: { items: [] } }))
  }
})

test('K05 changing a skill needs form token, origin and permission; viewing changes nothing', async () => {
  const id = fixtures.name()
  const path = await published(id)
  const [session, own, reading, nobody] = await Promise.all(
    [reviewer, maker, auditor, await fixtures.operator([])].map(({ key }) =>
      ConsoleSession.open(fixtures.url, key),
    ),
  )
  if (session === undefined || own === undefined || reading === undefined || nobody === undefined)
    throw new Error('four were opened')
  const fields = { ...(await session.fields(path)), reason: 'a test' }
  const seen = await Promise.all([
    session.post(`${path}/enable`, fields, { cookie: '' }),
    session.post(`${path}/enable`, { ...fields, form: '' }),
    session.post(`${path}/enable`, fields, { origin: 'https://evil.example' }),
    reading.post(`${path}/enable`, { ...(await reading.fields(path)) }),
    own.post(`${path}/enable`, await own.fields(path)),
    reading.post(`${path}/revoke`, await reading.fields(path)),
    session.get(`${path}/enable?${new URLSearchParams(fields)}`),
    session.get(pathOf(id, '9.9.9')),
    session.get(pathOf('..%2fx')),
    nobody.get(LIST),
    nobody.get(path),
  ])
  expect(seen.map(({ status }) => status)).toEqual([401, 403, 403, 403, 403, 403, 405, 404, 404, 403, 403])
  expect(await stateOf(id)).toBe('quarantined')
  const done = await session.post(`${path}/enable`, fields)
  expect([done.status, done.headers.get('location')]).toEqual([303, path])
  expect(
    unwrap(await fixtures.root('readSkill', { params: { id, version: '1.0.0' } })).changes,
  ).toMatchObject([{ to: 'enabled', by: reviewer.name, reason: 'a test' }])
  const back = await session.post(`${LIST}/${id}/rollback`, { ...fields, from: '1.0.0', to: '1.0.0' })
  expect([back.status, await back.text()]).toEqual([409, expect.stringContaining('No earlier version of')])
  expect(
    (await session.post(`${LIST}/${id}/rollback`, { ...fields, from: '1.0.0', to: '../x' })).status,
  ).toBe(404)
})

test('a second click on roll back does not roll back further', async () => {
  const id = fixtures.name()
  for (const version of ['1.0.0', '1.1.0', '1.2.0']) {
    await published(id, { version })
    unwrap(await reviewer.client('enableSkill', { params: { id, version }, body: {} }))
  }
  const session = await ConsoleSession.open(fixtures.url, reviewer.key)
  const fields = await session.fields(pathOf(id, '1.2.0'))
  expect(fields).toMatchObject({ from: '1.2.0', to: '1.1.0' })
  const twice = await Promise.all([1, 2].map(() => session.post(`${LIST}/${id}/rollback`, fields)))
  expect(twice.map(({ status }) => status).sort()).toEqual([303, 409])
  expect([await stateOf(id), await stateOf(id, '1.1.0')]).toEqual(['disabled', 'enabled'])
})

test('signing in returns to the skill version that was requested', async () => {
  const path = await published(fixtures.name())
  const page = await openConsole(path)
  expect(new URL(page.url()).pathname).toBe(path)
})
