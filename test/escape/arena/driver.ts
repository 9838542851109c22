// A worker's sandbox without the worker: a process of an unprivileged user that runs plans through
// the real `launch`, on orders that come as lines of JSON. It also starts the same command line
// with one defence removed, to show that a test bites.

import { spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { closeInheritedDescriptors, contentOf, namelessFile } from '../../../worker/host/file-descriptors.ts'
import { equip, unequip } from '../../../worker/sandbox/equipment.ts'
import { INIT } from '../../../worker/sandbox/kernel/init.ts'
import { launch, type Sandbox } from '../../../worker/sandbox/launch.ts'
import { admit } from '../../../worker/sandbox/plan/argv.ts'
import { findHost } from '../../../worker/sandbox/plan/host-programs.ts'
import { probe } from '../../../worker/sandbox/probe/probe.ts'
import { endOrphans } from '../../../worker/sandbox/process/orphans.ts'
import { WarmStock } from '../../../worker/sandbox/warm-stock.ts'
import { bareCommand } from '../../support/worker/bare-command.ts'
import type { Answer, BareOrder, BareSeen, LaunchOrder, LaunchSeen, Order, Setup, Swap } from './orders.ts'

const setup = JSON.parse(process.argv[2] ?? '') as Setup // written by arena.ts
if (setup.keepDescriptors !== true) closeInheritedDescriptors()

const found = await findHost()
const host = { ...found, ...setup.host, programs: { ...found.programs, ...setup.programs } }
const equipment = await equip(host, {
  folder: setup.folder,
  privateHosts: setup.privateHosts ?? [],
  authorities: setup.authorities,
  profiles: setup.profiles ?? {},
})
const prepared = setup.prepared === undefined ? undefined : new WarmStock(equipment, setup.prepared)
const facts = setup.facts ?? (await probe(equipment, undefined, prepared))
const sandbox: Sandbox = { equipment, facts, prepared }

async function run(
  { plan, stdin, secrets, runFolder, cancelOn }: LaunchOrder,
  id: number,
): Promise<LaunchSeen> {
  const abort = new AbortController()
  const output = { stdout: '', stderr: '' }
  const input = stdin === undefined ? undefined : Buffer.from(stdin, 'latin1')
  const fromStock = await stocked(plan)
  const told = prepared?.callStarted()
  const execution = await launch(sandbox, {
    plan,
    stdin: input,
    secrets,
    runFolder,
    signal: abort.signal,
    onOutput: ({ stream, bytes }) => {
      const said = Buffer.from(bytes).toString('latin1')
      output[stream] += said
      if (cancelOn !== undefined && output[stream].includes(cancelOn)) abort.abort()
      tell({ id, said })
    },
  })
  told?.()
  return { ...execution, out: output.stdout, err: output.stderr, fromStock }
}

/** Waits until a warm sandbox is ready, if the call may use one. */
async function stocked(plan: Plan): Promise<boolean> {
  const admitted = admit(plan)
  if (prepared === undefined || setup.prepared?.hasten === true || !admitted.ok) return false
  const until = Date.now() + STOCKED_WITHIN_MS
  for (let ready = prepared.readyFor(admitted.value); ; ready = prepared.readyFor(admitted.value)) {
    if (ready !== false) return ready === true
    if (Date.now() > until) throw new Error('no sandbox was set up in advance')
    await sleep(2)
  }
}
const STOCKED_WITHIN_MS = 20_000

async function bare({
  plan,
  runFolder,
  swaps = [],
  env = {},
  under = [],
  inline = false,
  killOn,
}: BareOrder): Promise<BareSeen> {
  const command = bareCommand(equipment, plan, runFolder)
  const given = command.reads[3]?.toString().split('\0').slice(0, -1) ?? []
  for (const [from] of swaps)
    if (!holds(given, from) && !holds(command.args, from))
      throw new Error(`nothing to swap: ${from.join(' ')}`)
  const [options, args] = [swapped(given, swaps), swapped(command.args, swaps)]
  const reads = [Buffer.from(`${options.join('\0')}\0`), command.reads[4], command.reads[12]].map((bytes) =>
    namelessFile(equipment.scratch, bytes),
  )
  const status = namelessFile(equipment.scratch)
  const [program = '', ...rest] = [
    ...under,
    command.program,
    ...(inline ? [...options, ...args.slice(2)] : args),
  ]
  // bubblewrap passes on descriptors that it does not use.
  const wanted = [!inline, options.includes('--seccomp'), options.includes('--json-status-fd')]
  const [optionsFd = 0, filterFd = 0, initFd = 0] = reads
  const extra: ('ignore' | 'pipe' | number)[] = [optionsFd, filterFd, status].map((fd, index) =>
    wanted[index] ? fd : 'ignore',
  )
  while (3 + extra.length < command.lifeline) extra.push('ignore')
  extra.push(args.includes(INIT) ? 'pipe' : 'ignore', initFd)
  const child = spawn(program, rest, {
    env,
    cwd: command.cwd,
    stdio: ['ignore', 'pipe', 'pipe', ...extra],
    detached: true,
  })
  for (const fd of reads) closeSync(fd)
  const output = ['', '']
  for (const [index, stream] of [child.stdout, child.stderr].entries()) {
    stream?.on('data', (chunk: Buffer) => {
      output[index] += chunk.toString('latin1')
      if (killOn !== undefined && output[index]?.includes(killOn)) child.kill('SIGKILL')
    })
  }
  const whole = new Promise((settle) => child.on('close', settle))
  const ended = await new Promise<{ code: number | null; signal: string | null }>((settle, fail) => {
    child.on('error', fail)
    child.on('exit', (code, signal) => settle({ code, signal }))
  })
  await Promise.race([whole, sleep(300)]) // a survivor may keep them open, which may be the attack
  child.stdout?.destroy()
  child.stderr?.destroy()
  const told = contentOf(status)
  closeSync(status)
  return { ...ended, out: output[0] ?? '', err: output[1] ?? '', status: told }
}

const joined = (list: readonly string[]): string => `\0${list.map((item) => `${item}\0`).join('')}`
const holds = (list: readonly string[], part: readonly string[]): boolean =>
  joined(list).includes(joined(part))

function swapped(list: readonly string[], swaps: readonly Swap[]): string[] {
  let text = joined(list)
  for (const [from, to] of swaps) text = text.replaceAll(joined(from), () => joined(to))
  return text.split('\0').slice(1, -1)
}

function obey(order: Order): unknown {
  switch (order.do) {
    case 'facts':
      return { ...sandbox.facts, pid: process.pid }
    case 'orphans':
      return endOrphans().then(({ folders, ...rest }) => ({ ...rest, folders: [...folders] }))
    case 'launch':
      return run(order, order.id)
    case 'bare':
      return bare(order)
  }
}

const tell = (answer: Answer): void => void process.stdout.write(`${JSON.stringify(answer)}\n`)

async function answer(order: Order): Promise<void> {
  try {
    tell({ id: order.id, value: await obey(order) })
  } catch (error) {
    tell({ id: order.id, error: error instanceof Error ? (error.stack ?? error.message) : `${error}` })
  }
}

tell({ id: 0, value: 'ready' })
for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line) as Order) // written by arena.ts
await prepared?.close()
await unequip(equipment)
process.exit(0)
