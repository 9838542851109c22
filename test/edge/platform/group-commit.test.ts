// Which pieces of work share one sync.

import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'

type Commits = { run<T>(work: () => T): Promise<T> }
type Storage = { transactionSync<T>(work: () => T): T; sync(): Promise<void> }
/** By a variable path, because the type check of tests lacks the types of workerd that it needs. */
const { GroupCommit } = (await import(/* @vite-ignore */ join(ROOT, 'edge/platform/group-commit.ts'))) as {
  GroupCommit: new (storage: Storage) => Commits
}

test('work of one turn shares a sync, the first piece too, and a piece that fails fails alone', async () => {
  const seen: string[] = []
  const commits = new GroupCommit({
    transactionSync: (work) => work(),
    sync: async () => {
      await nextTurn()
      seen.push('synced')
    },
  })
  const piece = (name: string) => commits.run(() => seen.push(name))
  const failing = commits.run(() => {
    throw new Error('no room')
  })
  const first = [piece('first'), piece('second')]
  await expect(failing).rejects.toThrow('no room')
  await Promise.all(first)
  await Promise.all([piece('third'), piece('fourth')])
  expect(seen).toEqual(['synced', 'first', 'second', 'synced', 'third', 'fourth'])
})
