// Promise: however a witness is killed, it never cosigns two heads that contradict each other.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { CLI, CLI_ENV } from '../../support/countersign.ts'
import { GrownLog } from '../../support/grown-log.ts'

/** Kills the process when a head is on disk and its cosignature has not been made. */
const KILLED_AFTER_WRITE = `
import { StateFolder } from './cli/witness/state-folder.ts'
import { Witness } from './cli/witness/witness.ts'
const { folder, body, origin, x } = JSON.parse(process.env.GIVEN)
const state = await StateFolder.open(folder)
const keep = StateFolder.prototype.keep
StateFolder.prototype.keep = function (...given) {
  keep.apply(this, given)
  process.kill(process.pid, 'SIGKILL')
}
process.stdout.write(new Witness('w', [{ origin, keys: [x] }], state.value).addCheckpoint(body, Date.now()).body)
`

test('a witness that is killed between write and answer, or under load, remembers what it had accepted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'witness-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const leaves = Array.from({ length: 400 }, (_, i) => `leaf ${i}`)
  const log = new GrownLog('edge.example/default', leaves)
  const fork = new GrownLog(log.origin, ['another', ...leaves])
  const { x } = log.signer
  const state = join(folder, 'state')

  const given = JSON.stringify({ folder: state, body: log.submission(0, 5), origin: log.origin, x })
  const child = spawn(process.execPath, ['--input-type=module', '-e', KILLED_AFTER_WRITE], {
    cwd: ROOT,
    env: { ...CLI_ENV, GIVEN: given },
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  expect(await once(child, 'close')).toEqual([null, 'SIGKILL'])
  expect(output).toBe('')

  const config = join(folder, 'witness.json')
  const listen = { host: '127.0.0.1', port: 0 }
  writeFileSync(
    config,
    JSON.stringify({ name: 'w', listen, state, logs: [{ origin: log.origin, keys: [x] }] }),
  )
  const start = async () => {
    const witness = spawn(process.execPath, [...CLI, 'witness', '--config', config, '--json'], {
      cwd: ROOT,
      env: CLI_ENV,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void witness.kill('SIGKILL'))
    const [line] = (await once(witness.stdout, 'data')) as [Buffer]
    const url = `http://127.0.0.1:${JSON.parse(line.toString()).listening.port}/add-checkpoint`
    return { witness, post: (body: string) => fetch(url, { method: 'POST', body }) }
  }

  const first = await start()
  const refused = await first.post(`old 0\n\n${fork.note(3, log.signer)}`)
  expect([refused.status, await refused.text()]).toEqual([409, '5\n'])
  let cosigned = 5
  const underLoad = (async () => {
    for (let size = 6; size <= leaves.length; size++) {
      if ((await first.post(log.submission(size - 1, size))).status !== 200) break
      cosigned = size
      if (size === 40) first.witness.kill('SIGKILL')
    }
  })()
  await expect(underLoad).rejects.toThrow('fetch failed')

  const again = await start()
  const size = Number(await (await again.post(log.submission(0, 1))).text())
  expect(size).toBeGreaterThanOrEqual(cosigned)
  expect(size).toBeLessThan(leaves.length)
  expect((await again.post(`old ${size}\n\n${fork.note(size, log.signer)}`)).status).toBe(409)
  expect((await again.post(log.submission(size))).status).toBe(200)
  const closed = once(again.witness, 'close')
  again.witness.kill('SIGTERM')
  expect(await closed).toEqual([0, null])
})
