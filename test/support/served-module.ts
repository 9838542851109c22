// Serves a JavaScript module with the bare workerd, without the edge's configuration: for tests of
// code that has to run there.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Child } from '../../infra/child-process.ts'
import { freePort, ROOT } from '../../infra/state.ts'

const CONFIG = (port: number): string => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = (modules = [(name = "main.js", esModule = embed "main.js")], compatibilityDate = "2026-11-01")),
    (name = "internet", network = (allow = ["private", "local"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
`

export type Served = { readonly url: string; readonly stop: () => Promise<void> }

/** `main.js` of the folder is the module; it must answer HEAD. */
export async function serveModule(folder: string): Promise<Served> {
  const port = await freePort()
  const url = `http://127.0.0.1:${port}/`
  writeFileSync(join(folder, 'config.capnp'), CONFIG(port))
  const ready = (): Promise<boolean> =>
    fetch(url, { method: 'HEAD' }).then(
      () => true,
      () => false,
    )
  const workerd = new Child(
    {
      name: 'workerd',
      argv: [join(ROOT, 'node_modules/workerd/bin/workerd'), 'serve', join(folder, 'config.capnp')],
      env: { PATH: '/usr/bin:/bin' },
      cwd: folder,
      log: join(folder, 'log'),
      ready,
      readyWithin_ms: 30_000,
      stopWithin_ms: 1_000,
    },
    () => undefined,
  )
  const started = await workerd.start()
  if (!started.ok) throw new Error(started.error)
  return { url, stop: async () => void (await workerd.stop()) }
}
