// Promise: `npm run demo` shows the whole story and ends with `verified`, whether or not a stack
// runs, and leaves nothing behind. The demos run at the same time, because each waits most of its
// time.

import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

/** `left`: what the demo has left in its temporary folder; npm keeps a cache there too. */
type Demo = { readonly code: number | null; readonly text: string; readonly left: readonly string[] }

/** Runs the demo with its own temporary folder, so that leftovers can be seen. */
async function demo({ onTestFinished }: TestContext, state?: string, until?: RegExp): Promise<Demo> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-demos-'))
  const npm = spawn('npm', ['run', '--silent', 'demo'], {
    cwd: ROOT,
    env: {
      ...process.env,
      COUNTERSIGN_STATE: state ?? join(folder, 'no-such-state'),
      TMPDIR: folder,
      NO_COLOR: '1',
    },
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
    rmSync(folder, { recursive: true })
  })
  const code = await ended
  return { code, text, left: readdirSync(folder).filter((name) => name.startsWith('countersign')) }
}
const expectWholeStory = ({ code, text, left }: Demo): void => {
  expect({ code, text, left }).toEqual({ code: 0, text: expect.stringMatching(/\n\nverified\n$/), left: [] })
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

describe.concurrent('the demo', { timeout: 180_000 }, () => {
  test('the demo uses a running stack', async (context) => {
    expect(sharedStack().url).toMatch(/^http/)
    const run = await demo(context, sharedState())
    expectWholeStory(run)
    expect(run.text).toContain(`GET ${sharedStack().url}/approve/`)
    expect(run.text).toMatch(/^# left out: the running stack reaches public servers only/m)
  })

  test('the demo starts its own stack if none runs, and stops it at the end', async (context) => {
    const run = await demo(context)
    expectWholeStory(run)
    for (const part of [
      /^ {2}everything_get-env +new /m,
      /^ {4}"description": "Returns the sum of two numbers",$/m,
      /^ {2}tool everything_get-sum accepted$/m,
      /^ {2}waits for an operator: http:\/\/127\.0\.0\.1:\d+\/console\/approvals\/apr_/m,
      /^ {2}answer: The sum of 17 and 25 is 42\.$/m,
      /^ {4}upstream +everything, http:\/\/127\.0\.0\.1:\d+, definition sha256 [0-9a-f]{64}$/m,
      /^ {4}│ \{"greeting":"Hello, Ada!"\}$/m,
      /^# the edge is stopped now/m,
      /^ {4}cosigned +witness\.example\/demo at 20/m,
      /^ {2} {2}FAIL {2}no witness of this edge refuses the log.*: the log was rolled back: it has \d+ leaves, and the witness has cosigned \d+$/m,
    ])
      expect(run.text).toMatch(part)
    for (const pattern of [/GET (http:\/\/127\.0\.0\.1:\d+)/, /address +(http:\/\/127\.0\.0\.1:\d+)/]) {
      const [, url = ''] = pattern.exec(run.text) ?? []
      await expect(fetch(`${url}/healthz`)).rejects.toThrow('fetch failed')
    }
  })

  test('the demo leaves nothing behind when Ctrl-C stops it in the middle', async (context) => {
    const run = await demo(context, undefined, /^ {2}succeeded {2}text_stats/m)
    expect(run.code).not.toBe(0)
    expect(run.text).not.toMatch(/\nverified\n$/)
    expect(run.left).toEqual([])
  })
})
