// `npm run demo`: shows the product in a terminal, step by step, with each command and request. A
// harmless call runs; a sensitive one is approved through its link and verified offline; a standing
// approval saves a question; a forbidden call is denied; an AI agent calls a third-party MCP server;
// a skill is created, tested, published and called. Uses the running stack (without changing its
// upstreams and skills) or starts one. Exits with 0 only if all steps succeed.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sayOnStderr as say } from '../setup.ts'
import { startStack } from '../stack.ts'
import { stateDir } from '../state.ts'
import { agentAndServer } from './agent-and-server.ts'
import { forbidden, harmless, sensitive, skill, standing } from './steps.ts'
import { good, title } from './terminal.ts'

/** The state folder of the running stack, if there is one. */
async function running(): Promise<string | undefined> {
  const state = stateDir()
  const dev = join(state, 'dev.json')
  if (!existsSync(dev)) return undefined
  const { url } = JSON.parse(readFileSync(dev, 'utf8')) as { url: string } // written by the stack
  const answer = await fetch(new URL('/healthz', url), { signal: AbortSignal.timeout(2_000) }).catch(
    () => undefined,
  )
  return answer?.ok === true ? state : undefined
}

/**
 * Starts a stack for the demo; returns the function that stops it. Its edge may send requests to
 * this host, where the demo runs an MCP server.
 */
async function ownStack(state: string): Promise<() => Promise<void>> {
  const started = await startStack({ state, say, loopbackChannels: true })
  if (started.ok) return started.value.stop
  throw new Error(started.error)
}

const folder = mkdtempSync(join(tmpdir(), 'countersign-demo-'))
let stop = async (): Promise<void> => undefined
let ending: Promise<never> | undefined
const end = (code: number): Promise<never> => {
  ending ??= stop().then(() => {
    rmSync(folder, { recursive: true, force: true })
    return process.exit(code)
  })
  return ending
}
// Terminal, npm and wrappers may each forward the same Ctrl-C: the first signal ends the demo,
// later ones are ignored.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(130))

try {
  const runningState = await running()
  if (runningState === undefined) stop = await ownStack(join(folder, 'state'))
  const demo = { state: runningState ?? join(folder, 'state'), folder, own: runningState === undefined }
  harmless(demo)
  await sensitive(demo)
  standing(demo)
  forbidden(demo)
  await agentAndServer(demo)
  skill(demo)
  title('The attestations of the approved calls and of the denied call are')
  console.log(good('verified'))
  await end(0)
} catch (thrown) {
  say(thrown instanceof Error ? thrown.message : String(thrown))
  await end(1)
}
