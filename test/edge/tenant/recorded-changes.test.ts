// Promise: a change of a tenant and its journal entry are stored together or not at all, and what the
// tenant's object has in memory is what is stored.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { type JournalEntry, verifyChain } from '../../../shared/evidence/journal.ts'
import type { Result } from '../../../shared/result.ts'
import type { AgentSpec, OperatorSpec } from '../../../shared/wire/principals.ts'
import { newDatabase, objectOn } from '../../support/stack/object-storage.ts'

/** By a variable path, because the type check of tests lacks the types of workerd that stores need. */
const edge = <Module>(file: string): Promise<Module> => import(/* @vite-ignore */ join(ROOT, 'edge', file))

type Journal = {
  append: (kind: string, body: object) => void
  page: (after: number) => JournalEntry[]
  unlogged: () => JournalEntry[]
  logged: (last: number) => void
  lastOf: (kinds: readonly string[]) => number
}
type RecordedChange = <T>(entry: unknown, write: () => T) => T
const { Journal, recording } = await edge<{
  Journal: new (db: unknown, source: string, table: unknown) => Journal
  recording: (
    journal: Pick<Journal, 'append'>,
    delivery: { soon: <T>(done: T) => T },
    change: <T>(write: () => T) => T,
  ) => RecordedChange
}>('tenant/journal-store.ts')
const { tenantJournal } = await edge<{ tenantJournal: unknown }>('tenant/tables.ts')
type Home = { tenant: string; loopback: boolean }
const { PrincipalStore } = await edge<{
  PrincipalStore: new (
    db: unknown,
    record: RecordedChange,
  ) => {
    putAgent: (home: Home, name: string, spec: AgentSpec, by: string) => Result<{ key?: string }>
    putOperator: (tenant: string, name: string, spec: OperatorSpec, by: string) => Result<unknown>
    rotate: (kind: 'agent' | 'operator', tenant: string, name: string, by: string) => Result<unknown>
    remove: (kind: 'agent' | 'operator', name: string, by: string) => Result<unknown>
    agents: () => { name: string; keyHash: string; spec: AgentSpec }[]
    operators: () => { name: string }[]
    forget: () => void
  }
}>('tenant/principal-store.ts')

const HOME = { tenant: 'acme', loopback: false }

function newHome() {
  const sqlite = new DatabaseSync(':memory:')
  const db = newDatabase('tenant', sqlite)
  const { transactionSync } = objectOn(sqlite).storage
  const journal = new Journal(db, 'tenant', tenantJournal)
  const home = { fails: false, sent: 0 }
  const append: Journal['append'] = (kind, body) => {
    journal.append(kind, body)
    if (home.fails) throw new Error('the disk is full')
  }
  const delivery = {
    soon: <T>(done: T): T => {
      home.sent++
      return done
    },
  }
  const record = recording({ append }, delivery, transactionSync)
  return { home, journal, principals: new PrincipalStore(db, record), stored: new PrincipalStore(db, record) }
}

test('if the entry can’t be stored, the change is undone, and the copy in memory stays as it is stored', () => {
  const { home, journal, principals, stored } = newHome()
  const put = (name: string, tools: string[]) => principals.putAgent(HOME, name, { tools }, 'root')
  put('kept', ['a'])
  const before = principals.agents()
  home.fails = true
  expect(() => put('kept', ['b'])).toThrow('the disk is full')
  expect(() => put('new', ['a'])).toThrow('the disk is full')
  expect(() => principals.rotate('agent', 'acme', 'kept', 'root')).toThrow('the disk is full')
  expect(() => principals.remove('agent', 'kept', 'root')).toThrow('the disk is full')
  expect(principals.agents()).toEqual(before)
  expect(stored.agents()).toEqual(before)
  expect([journal.page(0).length, home.sent]).toEqual([1, 1])
})

test('after any changes, the agents and operators in memory are those that are stored, in the same order', () => {
  const { journal, principals, stored } = newHome()
  const names = ['a', 'b', 'c', 'd']
  let seed = 7
  const roll = (below: number): number => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed % below
  }
  principals.putOperator('acme', 'root', { roles: ['admin'] }, 'root')
  for (let step = 0; step < 200; step++) {
    const name = names[roll(4)] ?? ''
    const change = [
      () => principals.putAgent(HOME, name, { tools: [`t${roll(3)}`] }, 'root'),
      () => principals.putOperator('acme', name, { roles: roll(2) === 0 ? [] : ['admin'] }, 'root'),
      () => principals.rotate(roll(2) === 0 ? 'agent' : 'operator', 'acme', name, 'root'),
      () => principals.remove(roll(2) === 0 ? 'agent' : 'operator', name, 'root'),
    ][roll(4)]
    const before = journal.lastOf(['agent.put', 'operator.put'])
    change?.()
    expect(journal.lastOf(['agent.put', 'operator.put'])).toBeGreaterThanOrEqual(before)
    stored.forget()
    expect(principals.agents()).toEqual(stored.agents())
    expect(principals.operators()).toEqual(stored.operators())
  }
  expect(principals.operators().map(({ name }) => name)).toContain('root')
})

test('a key that was rotated or removed is gone from the copy in memory at once', () => {
  const { principals } = newHome()
  principals.putAgent(HOME, 'bot', { tools: ['*'] }, 'root')
  const [first] = principals.agents()
  principals.rotate('agent', 'acme', 'bot', 'root')
  const [second] = principals.agents()
  expect(second?.keyHash).not.toBe(first?.keyHash)
  principals.remove('agent', 'bot', 'root')
  expect(principals.agents()).toEqual([])
})

test('entries are chained, are delivered in pages, and are not delivered again once the log has them', () => {
  const { journal, principals } = newHome()
  for (let n = 0; n < 120; n++) principals.putAgent(HOME, `bot-${n}`, { tools: ['*'] }, 'root')
  expect(verifyChain([...journal.page(0), ...journal.page(100)])).toMatchObject({
    ok: true,
    value: { seq: 120 },
  })
  expect(journal.unlogged().map(({ seq }) => seq)).toEqual(Array.from({ length: 100 }, (_, n) => n + 1))
  journal.logged(100)
  expect(journal.unlogged().map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, n) => n + 101))
  journal.logged(120)
  expect(journal.unlogged()).toEqual([])
  expect([journal.lastOf(['agent.put']), journal.lastOf(['hold.put'])]).toEqual([120, 0])
})
