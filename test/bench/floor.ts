// The floor, a process under the worker’s user: the exact command that the worker starts for a call
// of tier C, started directly. No grant, verification, attestation or kept output: only
// child_process.spawn, its descriptors, and the wait for its end.

import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import type { ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { namelessFile, reopen, scratchFolder } from '../../worker/host/file-descriptors.ts'
import { seccompProgram } from '../../worker/sandbox/kernel/seccomp.ts'
import { admit, type Command, commandFor, FD } from '../../worker/sandbox/plan/argv.ts'
import { findHost } from '../../worker/sandbox/plan/host-programs.ts'
import { withoutOurInit } from '../support/worker/bare-command.ts'
import { answerQuestions } from './peer.ts'
import { type Extent, measure, type Slice } from './slice.ts'

export type Spawns = { readonly plan: Plan; readonly concurrency: number; readonly extent: Extent }

const host = await findHost()
const scratch = scratchFolder()
const nowhere = openSync('/dev/null', 'w')

async function floor({ plan, concurrency, extent }: Spawns): Promise<Slice> {
  const admitted = admit(plan)
  if (!admitted.ok || host.machine === undefined) throw new Error('this machine or this plan has no tier C')
  // The floor uses bubblewrap's own init: ours is part of the measured overhead.
  const command = withoutOurInit(commandFor(admitted.value, host, {}))
  if (command.bwrap === undefined) throw new Error('the floor is tier C')
  const options = namelessFile(scratch, command.bwrap.options)
  const filter = namelessFile(scratch, seccompProgram(host.machine, command.bwrap.sockets))
  const slice = await measure(concurrency, extent, () => bare(command, options, filter))
  closeSync(options)
  closeSync(filter)
  return slice
}

function bare(
  { program, args, env, cwd }: Command,
  options: number,
  filter: number,
): Promise<string | undefined> {
  const lent = [reopen(options), reopen(filter)] as const
  const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe']
  stdio[FD.args] = lent[0]
  stdio[FD.seccomp] = lent[1]
  stdio[FD.status] = nowhere
  const child = spawn(program, args, { env, cwd, stdio, detached: true })
  for (const fd of lent) closeSync(fd)
  child.stdout?.resume()
  let complaint = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    complaint += chunk.toString()
  })
  return new Promise((settle) => {
    child.on('error', (error) => settle(error.message))
    child.on('close', (code, signal) =>
      settle(code === 0 ? undefined : `ended with ${code ?? signal}: ${complaint}`),
    )
  })
}

await answerQuestions(floor)
