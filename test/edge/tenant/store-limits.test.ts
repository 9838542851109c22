// Promise: what a tenant keeps of skills and standing answers, and what one answer covers, is bounded.
// One more is refused, and what is beyond one answer waits for the next.

import { join } from 'node:path'
import { expect, test } from 'vitest'
import { testApproval } from '../../../edge/channels/test-approval.ts'
import { ROOT } from '../../../infra/state.ts'
import { sha256 } from '../../../shared/bytes/json.ts'
import { LIMITS } from '../../../shared/limits.ts'
import { ok, type Result } from '../../../shared/result.ts'
import type { Approval, Standing } from '../../../shared/wire/approvals.ts'
import { newDatabase } from '../../support/stack/object-storage.ts'

/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const storeIn = <Store>(file: string): Promise<Store> =>
  import(/* @vite-ignore */ join(ROOT, 'edge/tenant', file))

type Entry = Pick<Standing, 'id' | 'until_ms'>
const { StandingIndex } = await storeIn<{
  StandingIndex: new (
    db: unknown,
  ) => {
    list: (entry: Entry, now: number) => Result<true>
    all: (now: number) => Entry[]
  }
}>('standing-index-store.ts')

test('a tenant has at most 500 standing answers (`LIMITS.standing`), of which those that have ended make room', () => {
  expect(LIMITS.standing).toBe(500)
  const index = new StandingIndex(newDatabase('tenant'))
  const entry = (n: number): Entry => ({ id: `std_${n}`, until_ms: n === 0 ? 10 : 20 })
  for (let n = 0; n < 500; n++) expect(index.list(entry(n), 1)).toEqual({ ok: true, value: true })
  const refused = {
    ok: false,
    error: { code: 'limit_reached', detail: expect.stringContaining('revoke some') },
  }
  expect(index.list(entry(500), 9)).toMatchObject(refused)
  expect([index.list(entry(499), 9).ok, index.all(9).length]).toEqual([true, 500]) // a repeated request
  expect(index.list(entry(500), 10)).toEqual({ ok: true, value: true })
  expect(index.list(entry(501), 10)).toMatchObject(refused)
})

const { InboxStore } = await storeIn<{
  InboxStore: new (
    db: unknown,
  ) => {
    mirror: (approvals: readonly Approval[]) => void
    alike: (group: string, newest: string) => string[]
  }
}>('inbox-store.ts')

test('one answer covers the 200 oldest identical approvals (`answers_at_once`), and the next answer the rest', () => {
  expect(LIMITS.answers_at_once).toBe(200)
  const inbox = new InboxStore(newDatabase('tenant'))
  const asked = Array.from(
    { length: 203 },
    (_, n): Approval => ({ ...testApproval(n), id: `apr_${String(n).padStart(3, '0')}`, status: 'pending' }),
  )
  const ids = asked.map(({ id }) => id)
  const [{ group } = testApproval(0)] = asked
  inbox.mirror(asked.toReversed())
  expect(inbox.alike(group, 'apr_201')).toEqual(ids.slice(0, 200))
  inbox.mirror(asked.slice(0, 200).map((approval) => ({ ...approval, status: 'denied' as const })))
  expect(inbox.alike(group, 'apr_201')).toEqual(['apr_200', 'apr_201']) // nobody has seen the last one
})

type Publication = {
  readonly about: Record<string, unknown>
  readonly payload: Uint8Array
  readonly files: readonly (readonly [name: string, bytes: Uint8Array])[]
}
type Package = { readonly payload: string }
const { SkillStore } = await storeIn<{
  SkillStore: new (
    db: unknown,
    change: <T>(write: () => T) => T,
    tools: unknown,
    kept: unknown,
  ) => {
    publish: (
      publication: Publication,
      holdCode: () => Result<true>,
      alsoWrite: () => void,
    ) => Result<unknown>
    package: (id: string, version: string) => Package | undefined
  }
}>('skills/version-store.ts')

/** The store of versions; its journal, which parts are denied and the quota of bytes are not tested here. */
function skillsOf(db: ReturnType<typeof newDatabase>) {
  const journal = { append: () => undefined, changesOf: () => [] }
  const kept = { journal, denied: { among: () => [] } }
  const store = new SkillStore(db, (write) => write(), undefined, kept)
  const publish = (
    id: string,
    version: string,
    payload = Buffer.from(`${id} ${version}`),
    code = payload,
  ) => {
    const manifest = { id, version, publisher: 'acme', tools: [] }
    const modules = [{ name: 'component.js', sha256: sha256(code) }]
    const signed = { signed_by: 'k', signature: 's', published_by: 'me', component: { sha256: '' } }
    const about = {
      ...signed,
      id,
      version,
      digest: sha256(payload),
      manifest,
      modules,
      contents: { parts: [] },
    }
    const done = store.publish(
      { about, payload, files: [['component.js', code]] },
      () => ok(true),
      () => undefined,
    )
    return done.ok ? 'published' : `${done.error.code}: ${done.error.detail}`
  }
  return { store, publish }
}

test('a skill has at most 100 versions (`skill_versions`), and another skill can still be published', () => {
  const { publish } = skillsOf(newDatabase('tenant'))
  const published = Array.from({ length: 100 }, (_, n) => publish('one', `1.0.${n}`))
  expect(new Set(published)).toEqual(new Set(['published']))
  expect(publish('one', '1.1.0')).toBe('limit_reached: a skill can have at most 100 versions')
  expect([publish('one', '1.0.99'), publish('two', '1.0.0')]).toEqual(['published', 'published'])
})

test('a tenant has at most 500 skills (`LIMITS.skills`), which can still get new versions', () => {
  expect(LIMITS.skills).toBe(500)
  const { publish } = skillsOf(newDatabase('tenant'))
  const published = Array.from({ length: 500 }, (_, n) => publish(`skill-${n}`, '1.0.0'))
  expect(new Set(published)).toEqual(new Set(['published']))
  expect(publish('one-more', '1.0.0')).toBe('limit_reached: a tenant can have at most 500 skills')
  expect(publish('skill-7', '1.0.1')).toBe('published')
})

test('a package is stored in parts of 1 MiB (`skill_part_bytes`), and is read as it was published', () => {
  const db = newDatabase('tenant')
  const { store, publish } = skillsOf(db)
  const MiB = 1_048_576
  const sizesOf = (bytes: Uint8Array) =>
    db
      .all<{ size: number }>(
        `select length(bytes) as size from skill_parts where sha256 = '${sha256(bytes)}' order by part`,
      )
      .map(({ size }) => size)
  const payload = Buffer.from(Uint8Array.from({ length: 2 * MiB + 1 }, (_, n) => n % 251))
  const code = payload.subarray(0, MiB)
  expect(publish('large', '1.0.0', payload, code)).toBe('published')
  expect([sizesOf(payload), sizesOf(code)]).toEqual([[MiB, MiB, 1], [MiB]])
  expect(Buffer.from(store.package('large', '1.0.0')?.payload ?? '', 'base64').equals(payload)).toBe(true)
})
