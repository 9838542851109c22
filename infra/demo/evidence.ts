// The demo's last step: evidence is verified with the edge stopped, a changed bundle is refused, and a
// witness refuses the log of an edge that runs on an older state.

import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { TENANT } from '../state.ts'
import { check, countersign, type DemoStack, explain, type OwnStack, title } from './terminal.ts'

/** The folder of the backup. */
const BACKUP = 'backup'
const REFUSED_WITHIN_MS = 20_000
const LOOK_MS = 50

/** `call`: the id of an approved call of `sha256sum /usr/bin/env`. */
export async function evidence(demo: DemoStack, call: string): Promise<void> {
  title('7  The evidence without the edge: a bundle is verified, a changed one and an older log are refused')
  countersign(demo, 'attestation', call, '-o', 'bundle.json')
  if (demo.own === undefined) explain('verification needs only these two files, and no network')
  else {
    await demo.own.stack.edge.stop()
    explain('the edge is stopped now: verification needs only these two files, and the witness’s public key')
  }
  const trusted = demo.own === undefined ? [] : ['--witness', demo.own.witnessKey]
  const verified = countersign(demo, 'verify', 'bundle.json', '--keys', 'keys.json', ...trusted)
  check(verified.code === 0 && /^verified$/m.test(verified.out), 'a verified attestation')
  forgery(demo)
  if (demo.own === undefined)
    explain('left out: the running stack stays as it is, so its log is not set back')
  else await olderState(demo, demo.own)
}

function forgery(demo: DemoStack): void {
  const bytes = readFileSync(join(demo.folder, 'bundle.json'))
  const at = bytes.indexOf('/usr/bin/env') + '/usr/bin/en'.length
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(join(demo.folder, 'forged.json'), bytes)
  explain(`the same bundle with one bit changed: at byte ${at}, /usr/bin/env becomes /usr/bin/enw`)
  const forged = countersign(demo, 'verify', 'forged.json', '--keys', 'keys.json')
  check(forged.code === 1 && /^NOT VERIFIED$/m.test(forged.out), 'a forgery that is refused')
}

/** Somebody starts the edge on the storage of the backup, as if the calls since then had never been. */
async function olderState(demo: DemoStack, { stack, witnessKey }: OwnStack): Promise<void> {
  const objects = join(demo.state, 'edge/objects')
  rmSync(objects, { recursive: true })
  cpSync(join(demo.folder, BACKUP, 'objects'), objects, { recursive: true })
  const started = await stack.edge.start()
  if (!started.ok) throw new Error(started.error)
  explain('the edge runs again, on the storage of the backup: the calls since then are missing. It signs the')
  explain('shorter log with its true key, but the witness, to which it shows each new head, has seen more')
  countersign(demo, 'call', 'process_run', '--args', '{"command":"sudo","args":["id"]}')
  for (const until = Date.now() + REFUSED_WITHIN_MS; ; await sleep(LOOK_MS)) {
    const witnesses = await stack.operator('logWitnesses', { params: { tenant: TENANT } })
    if (witnesses.ok && witnesses.value.items[0]?.refused != null) break
    check(Date.now() < until, 'a witness that refuses the log')
  }
  const shown = countersign(demo, 'log', 'checkpoint', '--keys', 'keys.json', '--witness', witnessKey)
  check(shown.code === 1 && /the log was rolled back/.test(shown.out), 'a log that is refused')
}

/** A backup of the running edge, to which the last step sets it back. */
export function backUp(demo: DemoStack): void {
  explain('a backup of the running edge, which step 7 misuses')
  check(countersign(demo, 'backup', BACKUP).code === 0, 'a backup')
}
