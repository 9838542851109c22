// Owns the terminal side of `npm start` and `npm run dev`: environment variables, Ctrl-C, and one
// line per call and pending approval.

import { setTimeout as sleep } from 'node:timers/promises'
import type { Say } from './setup.ts'
import { type Stack, type StackOptions, startStack } from './stack.ts'
import { sealAfterRefusal, stateDir, wantedPort, witnessesRefusal } from './state.ts'

/**
 * Terminal and npm both forward one Ctrl-C, so a second signal within this time is the same key
 * press.
 */
const SAME_KEYPRESS_MS = 500

export function fail(say: Say, text: string): never {
  say(text)
  process.exit(1)
}

/** Starts a stack with the settings of the environment, or prints why not and ends the process. */
export async function startFromTerminal(
  say: Say,
  options: Omit<StackOptions, 'state' | 'say'> & { readonly under?: string },
): Promise<Stack> {
  const port = wantedPort()
  if (port === undefined)
    fail(say, `COUNTERSIGN_PORT is \`${process.env['COUNTERSIGN_PORT']}\`; set it to a port from 1 to 65535`)
  const refusal = sealAfterRefusal() ?? witnessesRefusal()
  if (refusal !== undefined) fail(say, refusal)
  // Interrupting a start loses nothing: the parts end with us, and what they stored is kept.
  const interrupt = () => fail(say, 'stopped before the stack was ready')
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, interrupt)
  const state = options.under === undefined ? stateDir() : `${stateDir()}/${options.under}`
  const started = await startStack({ supervise: true, ...options, state, port, say })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.removeListener(signal, interrupt)
  if (!started.ok) fail(say, started.error)
  return started.value
}

/** The first signal stops the stack in order; a second one kills it. */
export function stopOnSignal(say: Say, stack: Stack, ending: AbortController): void {
  let first: number | undefined
  const onSignal = (): void => {
    if (first !== undefined) {
      if (Date.now() - first > SAME_KEYPRESS_MS) fail(say, 'killed')
      return
    }
    first = Date.now()
    ending.abort()
    say('stopping; press Ctrl-C again to kill everything at once')
    void stack.stop().then(() => {
      say('stopped')
      process.exit(0)
    })
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal)
}

const clock = (ms: number): string => new Date(ms).toTimeString().slice(0, 8)

/**
 * Prints one line per ended call and per pending approval until aborted. Retries while the edge
 * does not answer.
 */
export async function follow(
  { operator }: Stack,
  print: (line: string) => void,
  ended: AbortSignal,
): Promise<void> {
  const waiting = followApprovals(operator, print, ended)
  let after: number | undefined
  while (!ended.aborted) {
    const query = after === undefined ? { last: 1 } : { after }
    const page = await operator('listEndedCalls', {
      query,
      ...(after === undefined ? {} : { wait: 25 }),
      signal: ended,
    }).catch(() => undefined)
    if (page?.ok !== true) {
      await sleep(1_000, undefined, { signal: ended }).catch(() => undefined)
      continue
    }
    for (const { seq, call, agent, tool, state, at_ms, took_ms } of page.value.items) {
      if (after !== undefined)
        print(`${clock(at_ms)}  ${state.padEnd(13)} ${tool}  ${took_ms} ms  ${agent}  ${call}`)
      after = Math.max(after ?? 0, seq)
    }
    after ??= 0
  }
  await waiting
}

async function followApprovals(
  operator: Stack['operator'],
  print: (line: string) => void,
  ended: AbortSignal,
): Promise<void> {
  const shown = new Set<string>()
  while (!ended.aborted) {
    const list = await operator('listApprovals', { query: { status: 'pending' }, signal: ended }).catch(
      () => undefined,
    )
    for (const { id, requested_at, prompt, url } of list?.ok === true ? list.value.items : []) {
      if (shown.has(id)) continue
      shown.add(id)
      print(`${clock(requested_at)}  needs approval ${prompt.tool}  ${prompt.agent}  answer at ${url ?? id}`)
    }
    await sleep(1_000, undefined, { signal: ended }).catch(() => undefined)
  }
}
