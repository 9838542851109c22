// Starts the real stack for a test, on a temporary state folder that is removed with it.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { DevInfo } from '../../../infra/seed.ts'
import { type Stack, type StackOptions, startStack } from '../../../infra/stack.ts'
import { copyOfSeeded } from './seeded-state.ts'

type Options = Omit<StackOptions, 'state'> & {
  /**
   * A state folder that the test removes itself; empty, or left by an earlier stack of the same
   * test.
   */
  readonly state?: string
}

/**
 * Starts a stack that the test file may damage. Stop it in `afterAll`; it also ends if the test run
 * is killed.
 */
export async function startTestStack(options: Options = {}): Promise<Stack> {
  const state = options.state ?? (await folderFor(options))
  const stack = await started({ ...options, state })
  const stop = async (): Promise<void> => {
    await stack.stop()
    if (options.state === undefined) rmSync(state, { recursive: true, force: true })
  }
  return { ...stack, stop }
}

/** wrangler stores objects elsewhere, so it would not find what workerd has seeded. */
const folderFor = async ({ edge }: Options): Promise<string> =>
  edge === 'wrangler' ? mkdtempSync(join(tmpdir(), 'countersign-')) : copyOfSeeded('stack', seed)

async function seed(state: string): Promise<void> {
  const stack = await started({ state })
  await stack.stop()
}

async function started(options: StackOptions): Promise<Stack> {
  const notes: string[] = []
  const started = await startStack({ say: (text) => notes.push(text), ...options })
  if (!started.ok) throw new Error(`the stack did not start: ${started.error}\n${notes.join('\n')}`)
  return started.value
}

/**
 * The state folder of the stack that the files of this vitest worker share. The first file starts
 * it.
 */
const shared = await sharedFolder()

async function sharedFolder(): Promise<string | undefined> {
  const worker = process.env['VITEST_POOL_ID']
  const url = worker === undefined ? undefined : inject('stacks')
  if (url === undefined) return undefined
  const answer = await fetch(`${url}/${worker}`)
  const text = await answer.text()
  if (!answer.ok) throw new Error(text)
  return text
}

/**
 * The address and keys of the stack that files share, one after the other. Tests may add to it and
 * must not break it.
 */
export const sharedStack = (): DevInfo =>
  JSON.parse(readFileSync(join(sharedState(), 'dev.json'), 'utf8')) as DevInfo // written by infra/stack

/** The state folder of the shared stack. */
export function sharedState(): string {
  if (shared === undefined)
    throw new Error('this file is not in vitest’s project `shared`; infra/testing/projects.ts says which are')
  return shared
}
