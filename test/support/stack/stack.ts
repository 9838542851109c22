// A stack for tests: the real one, on a state folder of its own that goes with it.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { DevInfo } from '../../../infra/seed.ts'
import { type Stack, type StackOptions, startStack } from '../../../infra/stack.ts'
import { copyOfSeeded } from './seeded-state.ts'

type Options = Omit<StackOptions, 'state'> & {
  /** A folder that the test keeps; nothing is in it but what the test's own stacks left. */
  readonly state?: string
}

/** A stack that a test file may hurt. Stop it in `afterAll`; a test run that is killed takes it along. */
export async function startTestStack(options: Options = {}): Promise<Stack> {
  const state = options.state ?? (await folderFor(options))
  const stack = await started({ ...options, state })
  const stop = async (): Promise<void> => {
    await stack.stop()
    if (options.state === undefined) rmSync(state, { recursive: true, force: true })
  }
  return { ...stack, stop }
}

/** wrangler keeps its objects elsewhere, so what workerd has seeded would be missing. */
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

/** The state folder of the stack that this worker of vitest shares with the files before and after; it starts with the first of them. */
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

/** The stack that files share, one after the other: where it is, and the keys to it. Its tests add to it and never break it. */
export const sharedStack = (): DevInfo =>
  JSON.parse(readFileSync(join(sharedState(), 'dev.json'), 'utf8')) as DevInfo // written by infra/stack

/** Its folder, as who works on the same machine has it. */
export function sharedState(): string {
  if (shared === undefined)
    throw new Error('this file is not in vitest’s project `shared`; infra/testing/projects.ts says which are')
  return shared
}
