// Promise: a console behind TLS sets a cookie that TLS alone carries and no neighbour can plant; a session ends when it was unused for
// half an hour, and after twelve hours whatever was done with it.

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

test('K05 behind TLS the cookie is `__Host-` and `Secure`, and one without the prefix is none', async () => {
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

test('K05 behind TLS a form of the same name over plain HTTP is from elsewhere', async () => {
  expect((await signIn(stack.url, key, { origin: 'http://countersign.example' })).status).toBe(403)
})

/** As if so much time had passed since the sessions began, and since they were used last. */
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

test('K05 a session that is used lives, one that was not for half an hour is over', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  await after(2 * LIMITS.console_idle_ms, LIMITS.console_idle_ms - MINUTE)
  expect((await session.get('/console')).status).toBe(200)
  await after(2 * LIMITS.console_idle_ms, LIMITS.console_idle_ms)
  expect((await session.get('/console')).status).toBe(401)
})

test('K05 a page that is only open keeps no session alive, however often its stream is cut; one that is looked at does', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  /** For how long nothing was noted of it, as the disk has it. */
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

test('K05 after twelve hours a session is over, however busy it was', async () => {
  const session = await ConsoleSession.open(stack.url, key, origin)
  await after(LIMITS.console_ms - MINUTE, 0)
  expect((await session.get('/console')).status).toBe(200)
  await after(LIMITS.console_ms, 0)
  expect((await session.get('/console')).status).toBe(401)
  expect((await signIn(stack.url, key, origin)).status).toBe(303)
})
