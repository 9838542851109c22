// `npm run demo`: shows the product in a terminal, step by step, with each command and request. A
// harmless call runs; a sensitive one is approved through its link; a standing approval saves a
// question; a forbidden call is denied; an AI agent calls a third-party MCP server; a skill is created,
// tested, published and called; a bundle is verified with the edge stopped, and a witness refuses a log
// that was rolled back. Uses the running stack (without stopping it, or changing its upstreams and
// skills) or starts one. Exits with 0 only if all steps succeed.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sayOnStderr as say } from '../setup.ts'
import { startStack } from '../stack.ts'
import { freePort, stateDir } from '../state.ts'
import { agentAndServer } from './agent-and-server.ts'
import { evidence } from './evidence.ts'
import { forbidden, harmless, sensitive, skill, standing } from './steps.ts'
import { good, type OwnStack, title } from './terminal.ts'
import { startWitness } from './witness.ts'

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
 * Starts a stack for the demo, and a witness of its log. Its edge may send requests to this host, where
 * the demo runs the witness and an MCP server.
 */
async function ownStack(state: string): Promise<OwnStack> {
  const port = await freePort()
  const witness = await startWitness(folder, { state, port })
  stop = witness.stop
  const { url, key } = witness
  const started = await startStack({ state, port, say, loopbackChannels: true, witnesses: [{ url, key }] })
  if (!started.ok) throw new Error(started.error)
  const stack = started.value
  stop = async () => {
    await stack.stop()
    await witness.stop()
  }
  return { stack, witnessKey: key }
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
  const state = runningState ?? join(folder, 'state')
  const demo = { state, folder, own: runningState === undefined ? await ownStack(state) : undefined }
  harmless(demo)
  const approved = await sensitive(demo)
  standing(demo)
  forbidden(demo)
  await agentAndServer(demo)
  skill(demo)
  await evidence(demo, approved)
  title('The attestations of the approved calls and of the denied call are')
  console.log(good('verified'))
  await end(0)
} catch (thrown) {
  say(thrown instanceof Error ? thrown.message : String(thrown))
  await end(1)
}
