// Cleaning up delegated cgroups never removes a group of a living worker.

import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { parentCgroups, removeEmptyCgroups } from '../../../infra/delegate-cgroup.ts'
import { asWorker } from '../../../infra/run-as-user.ts'
import { ROOT } from '../../../infra/state.ts'
import { eventually } from '../../support/eventually.ts'

const [file = '', ...args] = asWorker({ uid: 65_533, gid: 65_533 }, {}, () => ['/usr/bin/sleep', '60'])
const worker = spawn(file, args, { stdio: 'ignore' })
afterAll(() => worker.kill('SIGKILL'))

function ofWorker(): string | undefined {
  const [parent] = parentCgroups()
  if (parent === undefined) throw new Error('this host lets root delegate no cgroup')
  const name = readdirSync(parent).find((entry) => entry.startsWith(`countersign-${worker.pid}-`))
  return name === undefined ? undefined : join(parent, name)
}

/** Runs like a worker in a container with the host's cgroups and its own process namespace. */
const tidyElsewhere = (): void =>
  void execFileSync('/usr/bin/unshare', [
    ...['--pid', '--fork', '--mount-proc', process.execPath, '--input-type=module', '--eval'],
    `import { removeEmptyCgroups } from ${JSON.stringify(join(ROOT, 'infra/delegate-cgroup.ts'))}; removeEmptyCgroups()`,
  ])

test('a clean-up keeps the empty cgroup of a call while its worker lives and removes it afterwards', async () => {
  const group = await eventually('the worker is in its group', ofWorker)
  await eventually('it works', () => readFileSync(`/proc/${worker.pid}/comm`, 'utf8') === 'sleep\n')
  const call = join(group, 'call-1-1')
  mkdirSync(call)
  tidyElsewhere()
  expect(existsSync(call)).toBe(true)
  removeEmptyCgroups()
  expect(existsSync(call)).toBe(true)
  const gone = new Promise((settle) => worker.once('exit', settle))
  worker.kill('SIGKILL')
  await gone
  await eventually('the group is gone', () => {
    removeEmptyCgroups()
    return !existsSync(group)
  })
})
