// The console's sessions over plain HTTP: who can sign in, for how long, and what a stolen cookie
// or foreign request can do.

import { expect, test } from 'vitest'
import { ConsoleSession, signIn } from '../../support/browser/console-session.ts'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('console', sharedStack())
const agent = await fixtures.agent()
const sensitive = await fixtures.tool({ capabilities: ['process_exec'], input_schema: { type: 'object' } })
const askApproval = async () =>
  (await fixtures.proposeForApproval(agent.client, sensitive, { text: fixtures.name() })).approval.id
const statusOf = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } })).status
const page = (id: string) => `/console/approvals/${id}`
const approver = await fixtures.operator(['approver'])

test('an approval given in the console is recorded for the signed-in operator with channel console', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const id = await askApproval()
  expect(await (await session.get(`/console?tool=${sensitive}`)).text()).toContain(page(id))
  const answered = await session.post(page(id), {
    ...(await session.fields(page(id))),
    decision: 'approve',
    reason: 'fine',
  })
  expect([answered.status, answered.headers.get('location')]).toEqual([303, page(id)])
  const approval = unwrap(await fixtures.root('readApproval', { params: { id } }))
  expect(approval).toMatchObject({
    status: 'approved',
    answers: [{ by: approver.name, channel: 'console', reason: 'fine' }],
  })
  expect(await (await session.get(page(id))).text()).toMatch(/Approved.*fine/s)
})

test('K05 the session cookie is HttpOnly, SameSite=Strict and host-only; no page or URL has a key or token', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  expect(session.setCookie).toMatch(
    /^countersign=default\.[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
  )
  const token = session.cookie.split('.')[1] ?? ''
  const id = await askApproval()
  for (const path of ['/console', page(id)]) {
    const answer = await session.get(path)
    const text = await answer.text()
    expect([text.includes(token), text.includes(approver.key)]).toEqual([false, false])
    expect(answer.headers.get('cache-control')).toBe('no-store')
    expect(answer.headers.get('content-security-policy')).toMatch(
      /default-src 'none'.*frame-ancestors 'none'/,
    )
    expect([answer.headers.get('x-frame-options'), answer.headers.get('referrer-policy')]).toEqual([
      'DENY',
      'no-referrer',
    ])
  }
})

test('K05 signing in always opens a new session and ends the one that the browser sent (fixation)', async () => {
  const planted = await ConsoleSession.open(fixtures.url, approver.key)
  const session = await ConsoleSession.open(fixtures.url, approver.key, { cookie: planted.cookie })
  expect(session.cookie).not.toBe(planted.cookie)
  expect((await planted.get('/console')).status).toBe(401)
  const chosen = `countersign=default.${'A'.repeat(43)}`
  const other = await ConsoleSession.open(fixtures.url, approver.key, { cookie: chosen })
  expect(other.cookie).not.toBe(chosen)
  expect((await other.get('/console', { headers: { cookie: chosen } })).status).toBe(401)
  expect((await other.get('/console', { headers: { cookie: `${other.cookie}; ${chosen}` } })).status).toBe(
    401,
  ) // ambiguous, so neither counts
})

test('K05 a stolen cookie is useless on the next request after its key was rotated or revoked', async () => {
  const operator = await fixtures.operator(['approver'])
  const before = await ConsoleSession.open(fixtures.url, operator.key)
  expect((await before.get('/console')).status).toBe(200)
  const { key } = unwrap(await fixtures.root('rotateOperatorKey', { params: { name: operator.name } }))
  expect((await before.get('/console')).status).toBe(401)
  const after = await ConsoleSession.open(fixtures.url, key ?? '')
  expect((await after.get('/console')).status).toBe(200)
  unwrap(await fixtures.root('deleteOperator', { params: { name: operator.name } }))
  expect((await after.get('/console')).status).toBe(401)
})

test('K05 an operator has at most 16 sessions (`console_sessions`): the one unused for longest ends', async () => {
  const operator = await fixtures.operator(['approver'])
  const sessions: ConsoleSession[] = []
  for (let n = 0; n < 16; n++) sessions.push(await ConsoleSession.open(fixtures.url, operator.key))
  const valid = async () => {
    const answers = await Promise.all(sessions.map((one) => one.get('/console')))
    return answers.map(({ status }) => status === 200)
  }
  expect(await valid()).toEqual(Array(16).fill(true))
  sessions.push(await ConsoleSession.open(fixtures.url, operator.key))
  expect((await valid()).filter((one) => !one)).toHaveLength(1)
  expect((await valid()).at(-1)).toBe(true)
})

test('K05 signing out ends the session, even for a copy of the cookie: `signed_out`', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const out = await session.post('/console/sign-out', await session.fields('/console'))
  expect([out.status, out.headers.get('set-cookie')]).toEqual([303, expect.stringContaining('Max-Age=0')])
  expect((await session.get('/console')).status).toBe(401)
})

test('a decision needs a session, its form token and our origin', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const other = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const id = await askApproval()
  const fields = { ...(await session.fields(page(id))), decision: 'approve' }
  const tried: Record<string, Promise<Response>> = {
    'no session': session.post(page(id), fields, { cookie: '' }),
    'another’s form': session.post(page(id), {
      ...fields,
      form: (await other.fields(page(id)))['form'] ?? '',
    }),
    'no form token': session.post(page(id), { ...fields, form: '' }),
    'a foreign origin': session.post(page(id), fields, { origin: 'https://evil.example' }),
    'no origin': fetch(new URL(page(id), fixtures.url), {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { cookie: session.cookie },
    }),
    'a foreign site': session.post(page(id), fields, { 'sec-fetch-site': 'cross-site' }),
    'a hidden origin of a foreign site': session.post(page(id), fields, {
      origin: 'null',
      'sec-fetch-site': 'cross-site',
    }),
    'not what was shown': session.post(page(id), { ...fields, digest: '0'.repeat(64) }),
    'neither yes nor no': session.post(page(id), { ...fields, decision: 'maybe' }),
    JSON: session.get(page(id), {
      method: 'POST',
      body: JSON.stringify(fields),
      headers: { 'content-type': 'application/json' },
    }),
    'a key instead': fetch(new URL(page(id), fixtures.url), {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { authorization: `Bearer ${approver.key}`, origin: new URL(fixtures.url).origin },
    }),
  }
  const seen = await Promise.all(
    Object.entries(tried).map(async ([name, answer]) => [name, (await answer).status]),
  )
  expect(Object.fromEntries(seen)).toEqual({
    'no session': 401,
    'another’s form': 403,
    'no form token': 403,
    'a foreign origin': 403,
    'no origin': 403,
    'a foreign site': 403,
    'a hidden origin of a foreign site': 403,
    'not what was shown': 409,
    'neither yes nor no': 400,
    JSON: 403,
    'a key instead': 401,
  })
  expect(await statusOf(id)).toBe('pending')
})

test('each page asks policy what the API asks: an auditor can read but not answer, an operator without a role can’t even read', async () => {
  const id = await askApproval()
  const auditor = await ConsoleSession.open(fixtures.url, (await fixtures.operator(['auditor'])).key)
  expect((await auditor.get('/console')).status).toBe(200)
  expect(await (await auditor.get(page(id))).text()).not.toContain('name="decision"')
  const root = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  const { digest = '' } = await root.fields(page(id))
  const { form = '' } = await auditor.fields('/console')
  expect((await auditor.post(page(id), { form, digest, decision: 'approve' })).status).toBe(403)
  const nobody = await ConsoleSession.open(fixtures.url, (await fixtures.operator([])).key)
  for (const path of ['/console', page(id)]) expect((await nobody.get(path)).status).toBe(403)
  expect(await statusOf(id)).toBe('pending')
})

test('K05 the session cookie works only for the console, not for the API', async () => {
  const session = await ConsoleSession.open(fixtures.url, fixtures.rootKey)
  for (const path of ['/v1/approvals', '/v1/agents', '/v1/policies', '/v1/tools'])
    expect((await session.get(path)).status).toBe(401)
})

test('K05 denying several at once needs form token, origin and permission too', async () => {
  const id = await askApproval()
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const auditor = await ConsoleSession.open(fixtures.url, (await fixtures.operator(['auditor'])).key)
  const fields = { ...(await session.fields('/console')), id, decision: 'deny' }
  const seen = await Promise.all([
    session.post('/console/approvals', { ...fields, form: '' }),
    session.post('/console/approvals', fields, { origin: 'https://evil.example' }),
    auditor.post('/console/approvals', { ...(await auditor.fields('/console')), id, decision: 'deny' }),
    session.post('/console/approvals', { ...fields, id: 'apr_0' }),
  ])
  expect(seen.map(({ status }) => status)).toEqual([403, 403, 403, 404])
  expect(await statusOf(id)).toBe('pending')
  expect((await session.post('/console/approvals', fields)).status).toBe(200)
  expect(await statusOf(id)).toBe('denied')
})

test('the inbox stream starts with the current list, resumes after the last seen change, and ends with the session', async () => {
  const operator = await fixtures.operator(['approver'])
  const session = await ConsoleSession.open(fixtures.url, operator.key)
  const abort = new AbortController()
  const next = async (headers: Record<string, string> = {}) => {
    const stream = await session.get(`/console/events?agent=${agent.name}`, { headers, signal: abort.signal })
    expect(stream.headers.get('content-type')).toBe('text/event-stream')
    const reader = (stream.body ?? new ReadableStream<Uint8Array>())
      .pipeThrough(new TextDecoderStream())
      .getReader()
    return async () => (await reader.read()).value ?? 'the end'
  }
  const read = await next()
  const first = await read()
  expect(first).toMatch(/^id: \d+\nevent: inbox\ndata: \{"words":/)
  const resumed = await next({ 'last-event-id': /^id: (\d+)/.exec(first)?.[1] ?? '' })
  const id = await askApproval()
  for (const stream of [read, resumed]) {
    let text = ''
    while (!text.includes(id)) text = await stream() // changes of other test files may come first
  }
  unwrap(await fixtures.root('deleteOperator', { params: { name: operator.name } }))
  for (const stream of [read, resumed]) {
    let text = ''
    while (!text.startsWith('event: over')) text = await stream()
    expect(await stream()).toBe('the end')
  }
  expect((await session.get('/console/events')).status).toBe(401)
  abort.abort()
})

test('GET and HEAD on console routes change nothing, whatever they contain', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const id = await askApproval()
  const fields = new URLSearchParams({ ...(await session.fields(page(id))), decision: 'approve' })
  for (const method of ['GET', 'HEAD'])
    for (const path of [`${page(id)}?${fields}`, `/console/sign-out?${fields}`])
      await session.get(path, { method })
  expect(await statusOf(id)).toBe('pending')
  expect((await session.get('/console')).status).toBe(200)
})

test('K05 only an operator’s key signs in, and only from our own origin', async () => {
  for (const key of ['', 'x', agent.key, approver.key.replace('_default_', '_other_'), `${approver.key}0`]) {
    const answer = await signIn(fixtures.url, key)
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([401, null])
    expect(await answer.text()).not.toContain(agent.key)
  }
  const foreign = await signIn(fixtures.url, approver.key, { origin: 'https://evil.example' })
  expect([foreign.status, foreign.headers.get('set-cookie')]).toEqual([403, null])
})

test('K03 guessing a key is refused after ten tries a minute (`sign_in_tries`), without locking out other keys', async () => {
  const victim = await fixtures.operator(['approver'])
  const guess = `${victim.key.slice(0, -1)}${victim.key.endsWith('0') ? '1' : '0'}`
  const seen: number[] = []
  for (let i = 0; i < 12; i++) seen.push((await signIn(fixtures.url, guess)).status)
  expect(seen).toEqual([...Array.from({ length: 10 }, () => 401), 429, 429])
  expect((await signIn(fixtures.url, victim.key)).status).toBe(429)
  expect((await signIn(fixtures.url, approver.key)).status).toBe(303)
})

test('a session above an operator’s limit ends the least recently used one', async () => {
  const operator = await fixtures.operator(['approver'])
  const first = await ConsoleSession.open(fixtures.url, operator.key)
  for (let i = 0; i < 15; i++) await ConsoleSession.open(fixtures.url, operator.key)
  expect((await first.get('/console')).status).toBe(200)
  await ConsoleSession.open(fixtures.url, operator.key)
  expect((await first.get('/console')).status).toBe(401)
})

test('signing in returns to the requested page and never to another site', async () => {
  const id = await askApproval()
  const shown = await fetch(new URL(page(id), fixtures.url))
  expect([shown.status, (await shown.text()).includes(`name="back" value="${page(id)}"`)]).toEqual([
    401,
    true,
  ])
  for (const [back, leads] of [
    [page(id), page(id)],
    ['/console?risk=high', '/console?risk=high'],
    ['https://evil.example', '/console'],
    ['//evil.example', '/console'],
    ['/console/../../evil', '/console'],
    ['/console/sign-out', '/console'],
    ['/console?a\r\nset-cookie: x=y', '/console'],
  ] as const) {
    const answer = await signIn(fixtures.url, approver.key, {}, { back })
    expect([back, answer.headers.get('location')]).toEqual([back, leads])
  }
})

test('the inbox filters by agent, tool, risk and literal text', async () => {
  const session = await ConsoleSession.open(fixtures.url, approver.key)
  const harmless = await fixtures.tool({ sensitive: true, input_schema: { type: 'object' } })
  const [plain, odd] = [
    await askApproval(),
    (await fixtures.proposeForApproval(agent.client, harmless, { text: 'Odd % _ \' "<b>' })).approval.id,
  ]
  const found = async (query: Record<string, string>) => {
    const text = await (await session.get(`/console?${new URLSearchParams(query)}`)).text()
    return [text.includes(page(plain)), text.includes(page(odd))]
  }
  expect(await found({ agent: agent.name })).toEqual([true, true])
  expect(await found({ agent: 'nobody' })).toEqual([false, false])
  expect(await found({ tool: sensitive })).toEqual([true, false])
  expect(await found({ risk: 'medium', agent: agent.name })).toEqual([false, true])
  expect(await found({ agent: agent.name, text: "odd % _ '" })).toEqual([false, true])
  expect(await found({ agent: agent.name, text: '%' })).toEqual([false, true])
  expect(await found({ agent: "' or 1=1 --" })).toEqual([false, false])
  const text = await (await session.get(`/console?order=riskiest&agent=${agent.name}`)).text()
  expect(text.indexOf(page(plain)) < text.indexOf(page(odd))).toBe(true)
})
