// A workerd of the benchmark's own, with a configuration that it serves only for one measurement.

import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { Child, pdeathsig } from '../../infra/child-process.ts'
import { ROOT } from '../../infra/state.ts'

/** Serves `serve.capnp` of the folder while `work` runs, and removes the folder. */
export async function withWorkerd<T>(
  folder: string,
  ready: string,
  work: (pid: number) => Promise<T>,
): Promise<T> {
  const answers = () =>
    fetch(ready).then(
      (answer) => answer.ok,
      () => false,
    )
  const program = join(ROOT, 'node_modules/workerd/bin/workerd')
  const spec = {
    name: 'workerd',
    argv: pdeathsig([program, 'serve', '--experimental', join(folder, 'serve.capnp')]),
    env: { PATH: '/usr/bin:/bin' },
    cwd: folder,
    log: join(folder, 'log'),
    ready: answers,
    readyWithin_ms: 30_000,
    stopWithin_ms: 1_000,
  }
  const edge = new Child(spec, () => undefined)
  try {
    const started = await edge.start()
    if (!started.ok) throw new Error(started.error)
    return await work(edge.pid ?? 0)
  } finally {
    await edge.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
