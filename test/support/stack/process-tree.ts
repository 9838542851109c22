// A process with children like those of the stack, which a test kills: one child of our own user,
// and one behind the change of user and mount namespace that the worker goes through. Prints their
// pids as JSON and waits.

import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Child, type ChildSpec, pdeathsig } from '../../../infra/child-process.ts'
import { userNamed, WORKER_USER } from '../../../infra/packages.ts'
import { asWorker } from '../../../infra/run-as-user.ts'

const folder = process.argv[2] ?? tmpdir()
const user = userNamed(WORKER_USER) ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
const sleeping = pdeathsig(['/usr/bin/sleep', '60'])

const spec = (name: string, argv: readonly string[]): ChildSpec => ({
  name,
  argv,
  env: { PATH: '/usr/bin:/bin' },
  cwd: '/',
  log: join(folder, `${name}.log`),
  ready: () => Promise.resolve(true),
  readyWithin_ms: 5_000,
  stopWithin_ms: 1_000,
})

const children = [
  new Child(spec('plain', sleeping), console.error),
  new Child(
    spec(
      'worker',
      asWorker(user, { home: folder }, () => sleeping),
    ),
    console.error,
  ),
]
for (const child of children) await child.start()
console.log(JSON.stringify(children.map(({ pid }) => pid)))
setInterval(() => undefined, 1_000)
