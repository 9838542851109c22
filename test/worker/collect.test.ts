// The collector alone, over folders that no sandbox would let a tool make: it waits for nothing, and what is swapped under it leads
// nowhere.

import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { publicKey } from '../../shared/dsse.ts'
import { newWorkerId } from '../../shared/ids.ts'
import { type Link, openLink } from '../../worker/link.ts'
import { collect } from '../../worker/outputs.ts'
import { FakeEdge, newSigner } from '../support/fake-edge.ts'

const root = mkdtempSync(join(tmpdir(), 'countersign-collect-'))
const edge = new FakeEdge()
let link: Link
beforeAll(async () => {
  await edge.start()
  const [signer, worker] = [newSigner(), newWorkerId(Date.now())]
  edge.worker = { id: worker, x: signer.x, key: publicKey(signer.x) }
  link = openLink(edge.url, { tenant: edge.tenant, worker, signer })
})
afterAll(async () => {
  link?.close()
  await edge.stop()
  rmSync(root, { recursive: true, force: true })
})

const CALL = 'call_01JZ0000000000000000000000_1'
const collected = (folder: string, within_ms = 20_000) =>
  collect(folder, { call: CALL, link, until_ms: Date.now() + within_ms, signal: AbortSignal.timeout(60_000) })

test('S43 FIFOs, sockets and devices are told and never waited for', async () => {
  const folder = join(root, 'special')
  mkdirSync(folder)
  expect(spawnSync('/usr/bin/mkfifo', [join(folder, 'fifo')]).status).toBe(0)
  symlinkSync('/dev/zero', join(folder, 'zero'))
  const server = createServer()
  await new Promise<void>((listening) => server.listen(join(folder, 'socket'), listening))
  writeFileSync(join(folder, 'plain'), 'x')
  const { files, left } = await collected(folder)
  server.close()
  expect(files.map(({ path }) => path)).toEqual(['plain'])
  expect(left).toEqual(['fifo', 'socket', 'zero'].map((path) => ({ path, why: 'no_file' })))
})

test('S41 a folder that is swapped for a link all the while never leads outside', { timeout: 60_000 }, async () => {
  const [folder, outside] = [join(root, 'swapped'), join(root, 'outside')]
  for (const made of [folder, outside, join(folder, 'a')]) mkdirSync(made)
  writeFileSync(join(outside, 'in'), 'canary')
  writeFileSync(join(folder, 'a', 'in'), 'inside')
  symlinkSync(outside, join(folder, 'b'))
  const exchange = `
import ctypes
libc, a, b = ctypes.CDLL(None), b'${folder}/a', b'${folder}/b'
while True: libc.renameat2(-100, a, -100, b, 2)`
  const swapper = spawn('python3', ['-c', exchange], { stdio: 'ignore' })
  const seen = new Set<string>()
  try {
    const until = Date.now() + 30_000 // until the swapper has begun, and 300 times at the least
    for (let n = 0; n < 300 || (seen.size < 2 && Date.now() < until); n++)
      for (const { path, sha256 } of (await collected(folder)).files) seen.add(`${path} ${edge.files.get(sha256)}`)
  } finally {
    swapper.kill('SIGKILL')
  }
  expect([...seen].toSorted()).toEqual(['a/in inside', 'b/in inside']) // it was swapped, and both places were read
})

test('what can’t be sent in time is told', async () => {
  const folder = join(root, 'late')
  mkdirSync(folder)
  writeFileSync(join(folder, 'plain'), 'x')
  expect(await collected(folder, 0)).toEqual({ files: [], left: [{ path: 'plain', why: 'not_sent' }], more: 0 })
})
