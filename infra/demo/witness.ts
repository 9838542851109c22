// The demo's witness of the log: `countersign witness`, a program that knows the edge's public key and
// remembers the last head of the log that the edge has shown it.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { edgeSigner, readKeyRing } from '../../shared/evidence/key-ring.ts'
import { Child, pdeathsig } from '../child-process.ts'
import { openState, ROOT, readSecrets } from '../state.ts'
import { COMPILE_CACHE, match } from './terminal.ts'

/** Starts the witness of an edge that will run with this state folder and port. */
export async function startWitness(
  folder: string,
  edge: { readonly state: string; readonly port: number },
): Promise<{ readonly url: string; readonly key: string; readonly stop: () => Promise<void> }> {
  const state = openState(edge.state)
  const ring = state.ok ? readKeyRing(readSecrets(state.value).edge) : state
  if (!ring.ok) throw new Error(ring.error)
  const config = join(folder, 'witness.json')
  const log = join(folder, 'witness.log')
  writeFileSync(
    config,
    JSON.stringify({
      name: 'witness.example/demo',
      listen: { host: '127.0.0.1', port: 0 },
      state: join(folder, 'witness'),
      logs: [{ origin: `127.0.0.1:${edge.port}/`, keys: [edgeSigner(ring.value).x] }],
    }),
  )
  const argv = [process.execPath, join(ROOT, 'cli/main.ts'), 'witness', '--config', config]
  const witness = new Child(
    {
      name: 'the witness',
      argv: pdeathsig(argv),
      env: { PATH: '/usr/bin:/bin', ...COMPILE_CACHE },
      cwd: folder,
      log,
      ready: async (text) => / on 127\.0\.0\.1:\d+\n/.test(text()),
      readyWithin_ms: 20_000,
      stopWithin_ms: 1_000,
    },
    () => undefined,
  )
  const started = await witness.start()
  if (!started.ok) throw new Error(started.error)
  const text = readFileSync(log, 'utf8')
  return {
    url: `http://${match(text, / on (127\.0\.0\.1:\d+)\n/, 'a witness that listens')}`,
    key: match(text, /witness (\S+) on /, 'the key of a witness'),
    stop: () => witness.stop(),
  }
}
