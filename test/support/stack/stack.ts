// Starts the real stack for a test, on a temporary state folder that is removed with it.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { DevInfo } from '../../../infra/seed.ts'
import { type Stack, type StackOptions, startStack } from '../../../infra/stack.ts'
import { bundledWorker } from '../bundled.ts'
import { type Limits, limitEdge } from './other-limits.ts'
import { copyOfSeeded } from './seeded-state.ts'

export type TestStackOptions = Omit<StackOptions, 'state'> & {
  /**
   * A state folder that the test removes itself: seeded, left by an earlier stack of the same test, or
   * empty, which makes the start slower.
   */
  readonly state?: string
  /** Other limits than the real ones, for the edge and the worker. */
  readonly limits?: Limits
}

/**
 * Starts a stack that the test file may damage. Stop it in `afterAll`; it also ends if the test run
 * is killed.
 */
export async function startTestStack(options: TestStackOptions = {}): Promise<Stack> {
  const state = options.state ?? (await folderFor(options))
  const stack = await started({ ...options, state })
  const stop = async (): Promise<void> => {
    await stack.stop()
    if (options.state === undefined) rmSync(state, { recursive: true, force: true })
  }
  return { ...stack, stop }
}

/** wrangler stores objects elsewhere, so it would not find what workerd has seeded. */
const folderFor = async ({ edge }: TestStackOptions): Promise<string> =>
  edge === 'wrangler' ? mkdtempSync(join(tmpdir(), 'countersign-')) : seededState()

/** A state folder for a stack, which the caller removes. */
export const seededState = (): Promise<string> => copyOfSeeded('stack', seed)

async function seed(state: string): Promise<void> {
  const stack = await started({ state })
  await stack.stop()
}

async function started({ limits, ...options }: TestStackOptions & { state: string }): Promise<Stack> {
  const notes: string[] = []
  const started = await startStack({
    say: (text) => notes.push(text),
    workerProgram: await bundledWorker(options.worker === 'idle' ? {} : limits),
    ...(limits === undefined ? {} : { changeEdge: (bundle: string) => limitEdge(bundle, limits) }),
    ...options,
  })
  if (!started.ok) throw new Error(`the stack did not start: ${started.error}\n${notes.join('\n')}`)
  return started.value
}

/**
 * The address and keys of the stack that files share, one after the other. Tests may add to it and
 * must not break it.
 */
export const sharedStack = (): DevInfo =>
  JSON.parse(readFileSync(join(sharedState(), 'dev.json'), 'utf8')) as DevInfo // written by infra/stack

let shared: string | undefined

/**
 * The state folder of the stack that the files of this vitest worker share. The first file that
 * asks for it starts the stack, and waits until it is ready.
 */
export function sharedState(): string {
  const url = inject('stacks')
  if (url === undefined)
    throw new Error(
      'this file is not in vitest’s project `processes`; infra/testing/projects.ts says which are',
    )
  shared ??= answerOf(`${url}/${process.env['VITEST_POOL_ID']}`)
  return shared
}

/** Synchronous, so that a file asks for the stack only if it uses it, and without `await`. */
function answerOf(url: string): string {
  const asked = spawnSync('/usr/bin/curl', ['--silent', '--fail-with-body', url], { encoding: 'utf8' })
  if (asked.status !== 0) throw new Error(asked.error?.message ?? asked.stdout)
  return asked.stdout
}
