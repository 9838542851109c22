// A worker’s sandbox in a separate process under the worker’s user: runs one plan at a time through
// the real `launch`, so that traffic.ts can time traffic through its proxy.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { closeInheritedDescriptors } from '../../worker/host/file-descriptors.ts'
import { equip, unequip } from '../../worker/sandbox/equipment.ts'
import { launch } from '../../worker/sandbox/launch.ts'
import { findHost } from '../../worker/sandbox/plan/host-programs.ts'
import { probe } from '../../worker/sandbox/probe/probe.ts'
import { answerQuestions } from './peer.ts'
import type { ClientOutput } from './traffic.ts'

closeInheritedDescriptors() // as `countersign-worker run` does
const folder = mkdtempSync(join(tmpdir(), 'traffic-'))
const equipment = await equip(await findHost(), { folder, privateHosts: process.argv.slice(2) })
const sandbox = { equipment, facts: await probe(equipment, ['C']) }

await answerQuestions(async (plan: Plan): Promise<ClientOutput> => {
  let out = ''
  const { outcome, started_at_ms, ended_at_ms } = await launch(sandbox, {
    plan,
    onOutput: ({ bytes }) => {
      out += Buffer.from(bytes).toString('latin1')
    },
  })
  if (outcome.kind !== 'exit' || outcome.code !== 0)
    throw new Error(`the client ended with ${JSON.stringify(outcome)}: ${out}`)
  return { out, took_ms: ended_at_ms - started_at_ms }
})
await unequip(equipment)
rmSync(folder, { recursive: true, force: true })
