// `npm start`: sets up what is missing, runs the stack, prints a command for a first call, shows
// each call, and stops everything on Ctrl-C.

import { join } from 'node:path'
import { sayOnStderr } from './setup.ts'
import type { Stack } from './stack.ts'
import { writePrivate } from './state.ts'
import { follow, startFromTerminal, stopOnSignal } from './terminal.ts'

const began = performance.now()
const stack = await startFromTerminal(sayOnStderr, {})
const ending = new AbortController()
stopOnSignal(sayOnStderr, stack, ending)
await greet(stack)
await follow(stack, (line) => console.log(line), ending.signal)

async function greet({ url, dev, state }: Stack): Promise<void> {
  // A header file keeps the key out of the shell's history and of the process list.
  const header = join(state.dir, 'agent.header')
  writePrivate(header, `authorization: Bearer ${dev.agent_key}\n`)
  const pages = await Promise.all(
    ['/docs', '/console'].map(async (path) => ((await serves(url + path)) ? [path] : [])),
  )
  console.log(`Countersign is ready (${((performance.now() - began) / 1000).toFixed(1)} s).

  API      ${url}/v1${pages
    .flat()
    .map((path) => `\n  ${path.slice(1).padEnd(8)} ${url}${path}`)
    .join('')}
  keys     ${state.dev} (agent, operator, installation; only you can read it)
  logs     ${state.log}

To make a first call, which policy allows and which runs in a sandbox, run in another terminal:

  curl -sS -H @${header} -H 'prefer: wait=10' --json '{"tool":"text_stats","args":{"text":"who signs, answers\\n"}}' ${url}/v1/calls

Ended calls and pending approvals are shown below. Ctrl-C stops everything.
`)
}

async function serves(url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { method: 'HEAD', signal: AbortSignal.timeout(2_000) })
    return answer.ok || answer.status === 401 // the sign-in page
  } catch {
    return false
  }
}
