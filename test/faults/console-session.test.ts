// Promise: a console behind TLS sets a cookie that only TLS carries and no sibling domain can
// plant. A session ends after half an hour without use, and after twelve hours in any case.

import { afterAll, expect, test } from 'vitest'
import { LIMITS } from '../../shared/limits.ts'
import { ConsoleSession, signIn } from '../support/browser/console-session.ts'
import { revive, strike } from '../support/stack/hurt-stack.ts'
import { fileOf } from '../support/stack/object-file.ts'
import { startTestStack } from '../support/stack/stack.ts'

const PUBLIC = 'https://countersign.example'
const stack = await startTestStack({ worker: 'idle', publicUrl: PUBLIC })
afterAll(() => stack.stop())

const key = stack.dev.operator_key
const origin = { origin: PUBLIC }
const MINUTE = 60_000

test('K05 behind TLS the cookie is `__Host-` and `Secure`, and one without the prefix is ignored', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  expect(session.setCookie).toMatch(
    /^__Host-countersign=default\.[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/,
  )
  expect((await session.get('/console')).status).toBe(200)
  const bare = session.cookie.replace('__Host-', '')
  expect((await session.get('/console', { headers: { cookie: bare } })).status).toBe(401)
  const out = await session.post('/console/sign-out', await session.fields('/console'), origin)
  expect(out.headers.get('set-cookie')).toMatch(/^__Host-countersign=; Path=\/; Max-Age=0; .*Secure$/)
  expect((await session.get('/console')).status).toBe(401)
})

test('K05 behind TLS a form that was sent from the plain HTTP origin is refused', async () => {
  expect((await signIn(stack.url, key, { origin: 'http://countersign.example' })).status).toBe(403)
})

/** Makes the sessions older, by time since their start and since their last use. */
async function after(begun_ms: number, used_ms: number): Promise<void> {
  await strike(stack.edge)
  const db = fileOf('tenant', stack.state.dir)
  const { changes } = db
    .prepare('update console_sessions set created_at = ?, seen_at = ?')
    .run(Date.now() - begun_ms, Date.now() - used_ms)
  db.close()
  expect(Number(changes)).toBeGreaterThan(0)
  await revive(stack.edge)
}

test('K05 a session stays valid while it is used, and ends after half an hour without use', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  await after(2 * LIMITS.console_idle_ms, LIMITS.console_idle_ms - MINUTE)
  expect((await session.get('/console')).status).toBe(200)
  await after(2 * LIMITS.console_idle_ms, LIMITS.console_idle_ms)
  expect((await session.get('/console')).status).toBe(401)
})

test('K05 an open page whose stream reconnects keeps no session alive; viewing a page does', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  /** The stored time since its last use. */
  const unused = async (): Promise<number> => {
    await strike(stack.edge)
    const db = fileOf('tenant', stack.state.dir)
    const row = db.prepare('select max(seen_at) as at from console_sessions').get()
    db.close()
    await revive(stack.edge)
    return Date.now() - Number(row?.['at'])
  }
  await after(5 * MINUTE, 5 * MINUTE)
  for (const _time of ['opened', 'cut and opened again']) {
    const abort = new AbortController()
    const stream = await session.get('/console/events', { signal: abort.signal })
    expect(new TextDecoder().decode((await stream.body?.getReader().read())?.value)).toContain('event: inbox')
    abort.abort()
  }
  expect(await unused()).toBeGreaterThanOrEqual(5 * MINUTE)
  expect((await session.get('/console')).status).toBe(200)
  expect(await unused()).toBeLessThan(5 * MINUTE)
})

test('K05 a session ends after twelve hours, however much it was used', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  await after(LIMITS.console_ms - MINUTE, 0)
  expect((await session.get('/console')).status).toBe(200)
  await after(LIMITS.console_ms, 0)
  expect((await session.get('/console')).status).toBe(401)
  expect((await signIn(stack.url, key, origin)).status).toBe(303)
})
