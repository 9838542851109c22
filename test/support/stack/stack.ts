// A stack for tests: the real one, on a state folder of its own that goes with it.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { DevInfo } from '../../../infra/seed.ts'
import { type Stack, type StackOptions, startStack } from '../../../infra/stack.ts'

/** A stack that a test file may hurt. Stop it in `afterAll`; a test run that is killed takes it along. */
export async function startTestStack(
  options: Omit<StackOptions, 'state'> & { readonly state?: string } = {},
): Promise<Stack> {
  const state = options.state ?? mkdtempSync(join(tmpdir(), 'countersign-'))
  const notes: string[] = []
  const started = await startStack({ say: (text) => notes.push(text), ...options, state })
  if (!started.ok) throw new Error(`the stack did not start: ${started.error}\n${notes.join('\n')}`)
  const stop = async (): Promise<void> => {
    await started.value.stop()
    if (options.state === undefined) rmSync(state, { recursive: true, force: true })
  }
  return { ...started.value, stop }
}

/** The stack that files share, one after the other: where it is, and the keys to it. Its tests add to it and never break it. */
export const sharedStack = (): DevInfo =>
  JSON.parse(readFileSync(join(sharedState(), 'dev.json'), 'utf8')) as DevInfo // written by infra/stack

/** Its folder, as who works on the same machine has it. */
export function sharedState(): string {
  const folder = inject('states')[Number(process.env['VITEST_POOL_ID']) - 1] // of this worker of vitest's
  if (folder === undefined) throw new Error('no stack was started for this worker of vitest')
  return folder
}
