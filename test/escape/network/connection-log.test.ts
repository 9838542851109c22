// The record of a call’s connections has a bounded size, whatever the call did, and contains every
// byte and every attempt.

import { expect, test } from 'vitest'
import type { Connection } from '../../../shared/plan/plan.ts'
import { MAX_LISTED_CONNECTIONS } from '../../../shared/plan/plan.ts'
import { foldConnections } from '../../../worker/sandbox/network/connection-log.ts'

const one = (host: string, more: Partial<Connection> = {}): Connection => ({
  host,
  port: 443,
  address: '192.0.2.1',
  bytes_out: 1,
  bytes_in: 2,
  verdict: 'allowed',
  ...more,
})
const many = (count: number, make: (index: number) => Connection): Connection[] =>
  Array.from({ length: count }, (_, index) => make(index))
const total = (list: readonly Connection[], of: 'bytes_in' | 'bytes_out'): number =>
  list.reduce((sum, entry) => sum + entry[of], 0)
const attempts = (list: readonly Connection[]): number =>
  list.reduce((sum, { folded: count = 1 }) => sum + count, 0)

test('a record of few connections lists them one by one', () => {
  const entries = many(MAX_LISTED_CONNECTIONS, () => one('a.example'))
  expect(foldConnections(entries)).toEqual(entries)
})

test('further connections are summed by host, port and verdict, with their number', () => {
  const entries = many(MAX_LISTED_CONNECTIONS + 1_000, (index) =>
    one('a.example', index % 2 === 0 ? {} : { verdict: 'failed', address: '' }),
  )
  const record = foldConnections(entries)
  expect(record.slice(0, MAX_LISTED_CONNECTIONS)).toEqual(entries.slice(0, MAX_LISTED_CONNECTIONS))
  expect(record.slice(MAX_LISTED_CONNECTIONS)).toEqual([
    one('a.example', { bytes_out: 500, bytes_in: 1_000, folded: 500 }),
    one('a.example', { bytes_out: 500, bytes_in: 1_000, folded: 500, verdict: 'failed', address: '' }),
  ])
})

test('N15 connections to ten thousand hosts make a short record in which no byte is missing', () => {
  const entries = many(10_000, (index) =>
    one(`h${index}.example`, index % 3 === 0 ? { verdict: 'host_not_listed' } : {}),
  )
  const record = foldConnections(entries)
  expect(record.length).toBeLessThanOrEqual(2 * MAX_LISTED_CONNECTIONS + 8)
  expect([attempts(record), total(record, 'bytes_in'), total(record, 'bytes_out')]).toEqual([
    10_000, 20_000, 10_000,
  ])
  expect(record.filter(({ host }) => host === '').map(({ verdict }) => verdict)).toEqual([
    'allowed',
    'host_not_listed',
  ])
})
