// Promise: `npm run demo` shows the whole story and ends with `verified`, whether or not a stack
// runs, and leaves nothing behind.

import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-demos-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The leftovers of the demo in its temporary folder; npm keeps a cache there too. */
const left = (): string[] => readdirSync(folder).filter((name) => name.startsWith('countersign'))

type Demo = { readonly code: number | null; readonly text: string }

/** Runs the demo with its own temporary folder, so that leftovers can be seen. */
async function demo(state: string, until?: RegExp): Promise<Demo> {
  const npm = spawn('npm', ['run', '--silent', 'demo'], {
    cwd: ROOT,
    env: { ...process.env, COUNTERSIGN_STATE: state, TMPDIR: folder, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let text = ''
  const hear = (chunk: Buffer): void => {
    text += chunk
    if (until?.test(text) && npm.pid !== undefined) process.kill(-npm.pid, 'SIGINT') // as a terminal does
  }
  npm.stdout.on('data', hear)
  npm.stderr.on('data', hear)
  const ended = new Promise<number | null>((settle) => npm.once('close', settle))
  onTestFinished(async () => {
    npm.kill('SIGKILL')
    await ended
  })
  return { code: await ended, text }
}

const expectWholeStory = ({ code, text }: Demo): void => {
  expect({ code, text }).toMatchObject({ code: 0, text: expect.stringMatching(/\n\nverified\n$/) })
  for (const part of [
    /^ {2}succeeded {2}text_stats/m,
    /^ {2}awaiting_approval {2}process_run/m,
    /^> GET http:\/\/127\.0\.0\.1:\d+\/approve\//m,
    /\[Deny\] \[Approve once\]/,
    /Approved · root/,
    /^ {2}verified$/m,
    /^ {2}NOT VERIFIED$/m,
    /approved by standing approvals: `std_/,
    /^ {2}standing answer std_\w+ revoked$/m,
    /^ {2}denied {2}process_run/m,
    /deny by no-privilege-tools/,
    /^ {2}hello\/tests\/greet\.json {2}2 of 2 as expected$/m,
  ])
    expect(text).toMatch(part)
}

test('the demo uses a running stack', async () => {
  expect(sharedStack().url).toMatch(/^http/)
  const run = await demo(sharedState())
  expectWholeStory(run)
  expect(run.text).toContain(`GET ${sharedStack().url}/approve/`)
  expect(left()).toEqual([])
})

test('the demo starts its own stack if none runs, and stops it at the end', async () => {
  const none = join(folder, '..', 'no-such-state')
  const run = await demo(none)
  expectWholeStory(run)
  const [, url = ''] = /GET (http:\/\/127\.0\.0\.1:\d+)/.exec(run.text) ?? []
  await expect(fetch(`${url}/healthz`)).rejects.toThrow()
  expect(left()).toEqual([])
})

test('the demo leaves nothing behind when Ctrl-C stops it in the middle', async () => {
  const run = await demo(join(folder, '..', 'no-such-state'), /awaiting_approval/)
  expect(run.code).not.toBe(0)
  expect(run.text).not.toMatch(/\nverified\n$/)
  expect(left()).toEqual([])
})
