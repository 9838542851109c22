// N14: whatever the name, the network of channels reaches no address of this host, and no IPv4
// address embedded in an IPv6 address.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Child, pdeathsig } from '../../../infra/child-process.ts'
import { publicNetwork } from '../../../infra/public-network.ts'
import { freePort, ROOT } from '../../../infra/state.ts'
import { COMPATIBILITY_DATE } from '../../../infra/workerd.ts'

const THROUGH = `export default { async fetch(request, { OUTSIDE }) {
  try { return new Response('reached: ' + (await (await OUTSIDE.fetch(request.headers.get('x-to'))).text())) }
  catch (thrown) { return new Response('not reached: ' + thrown.message) }
} }`

/** workerd with this network: its answer for an address, and its log. */
async function withNetwork(
  network: string,
  work: (ask: (to: string) => Promise<string>) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-outside-'))
  const port = await freePort()
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "through", worker = .through), (name = "outside", network = ${network})],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "through")],
);
const through :Workerd.Worker = (
  compatibilityDate = "${COMPATIBILITY_DATE}",
  modules = [(name = "main.js", esModule = ${JSON.stringify(THROUGH)})],
  bindings = [(name = "OUTSIDE", service = "outside")],
);
`
  writeFileSync(join(folder, 'serve.capnp'), config)
  const ask = async (to: string) =>
    (await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-to': to } })).text()
  const spec = {
    name: 'workerd',
    argv: pdeathsig([join(ROOT, 'node_modules/workerd/bin/workerd'), 'serve', join(folder, 'serve.capnp')]),
    env: { PATH: '/usr/bin:/bin' },
    cwd: folder,
    log: join(folder, 'log'),
    ready: () =>
      ask('x').then(
        () => true,
        () => false,
      ),
    readyWithin_ms: 30_000,
    stopWithin_ms: 1_000,
  }
  const child = new Child(spec, () => undefined)
  try {
    const started = await child.start()
    if (!started.ok) throw new Error(JSON.stringify(started.error))
    await work(ask)
  } finally {
    await child.kill()
    rmSync(folder, { recursive: true, force: true })
  }
}

test('N14 the network of channels reaches neither this host, by any of its addresses, nor IPv6 addresses that embed an IPv4 one', async () => {
  const server = createServer((_, response) => void response.end('inside'))
  await new Promise<void>((listening) => server.listen(0, '::', listening))
  const { port } = server.address() as AddressInfo // the address of a TCP server
  const own = Object.values(networkInterfaces()).flatMap((all = []) =>
    all.map(({ address, family }) => (family === 'IPv4' ? address : `[${address}]`)),
  )
  const mapped = own.filter((address) => !address.startsWith('[')).map((address) => `[::ffff:${address}]`)
  const at = (address: string) => `http://${address}:${port}/`
  try {
    await withNetwork(publicNetwork(true), async (ask) => {
      expect(await ask(at('127.0.0.1'))).toBe('reached: inside') // control: tests may
    })
    await withNetwork(publicNetwork(false), async (ask) => {
      for (const address of [...own, ...mapped])
        expect([address, await ask(at(address))]).toEqual([address, expect.stringMatching(/^not reached/)])
      // Refused without a connection: an attempt would fail later, in another way.
      for (const address of [
        '[64:ff9b::7f00:1]',
        '[64:ff9b:1::7f00:1]',
        '[2002:7f00:1::]',
        '[::127.0.0.1]',
        '[2001:0:7f00:1::]',
      ])
        expect([address, await ask(at(address))]).toEqual([
          address,
          expect.stringMatching(/^not reached: internal error/),
        ])
    })
  } finally {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
  }
})
