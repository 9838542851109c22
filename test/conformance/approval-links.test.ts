// Our approval links keep every promise of the conformance suite. Anyone can run it against their
// own product, or against ours (see its README).

import { execFile } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { ApprovalServer } from '../support/channels/approval-server.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import type { Ask } from './approval-links/check.ts'
import { countersign } from './approval-links/countersign.ts'
import { CHECKS, conform, DEFAULTS } from './approval-links/suite.ts'

const fixtures = new Fixtures('conformance', sharedStack())
const agent = await fixtures.agent()
const where = { url: fixtures.url, operatorKey: fixtures.rootKey, agentKey: agent.key }

// The suite alters 10,000 tokens by default. Here 2,000 are enough, because
// test/edge/approvals/link-token.test.ts tries 10,000 without HTTP.
test('P01, P02, P03, P04, P05, P06, P07 our approval links keep every promise, with 1,000 answers at once and 2,000 altered tokens', {
  timeout: 300_000,
}, async () => {
  const findings = await conform(countersign(where), { ...DEFAULTS, mutations: 2_000 })
  expect(findings.filter(({ outcome }) => outcome !== 'kept')).toEqual([])
  expect(findings).toHaveLength(CHECKS.length)
})

/** Not `spawnSync`: it would block this process, and the edge would close its connections. */
const command = (
  program: string,
  args: readonly string[],
): Promise<{ code: number; out: string; err: string }> =>
  new Promise((done) =>
    execFile(
      process.execPath,
      [join(ROOT, 'test/conformance/approval-links', program), ...args],
      {
        env: {
          COUNTERSIGN_URL: where.url,
          COUNTERSIGN_KEY: where.operatorKey,
          COUNTERSIGN_AGENT_KEY: where.agentKey,
        },
      },
      (error, out, err) => done({ code: Number(error?.code ?? 0), out, err }),
    ),
  )
const FEW = ['--posts', '20', '--mutations', '100']

/**
 * A product to test the command with. Its tokens are short, so the command sends a tenth of the requests
 * that it would send to our edge.
 */
const product = await new ApprovalServer().start()
afterAll(() => product.stop())

test('the conformance command gets approvals from a program, prints a line for each promise, and exits with 0', {
  timeout: 120_000,
}, async () => {
  const asks = new Map<string, Ask>()
  const open = async (seconds: string) => {
    const ask =
      (await product.target.open(seconds === '' ? undefined : Number(seconds))) ?? expect.fail('no link')
    const id = `${asks.size}`
    asks.set(id, ask)
    return { id, link: ask.link }
  }
  const server = createServer(({ url = '' }, response) => {
    const [, verb, text = ''] = url.split('/')
    const answer = verb === 'open' ? open(text) : asks.get(text)?.look()
    void Promise.resolve(answer).then((value) => response.end(JSON.stringify(value)))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo // the address of a TCP server
  // The suite starts its program about sixty times, so this one starts quickly.
  const program = ['/bin/sh', '-c', 'exec /usr/bin/curl -sf "$0/$1/$2"', `http://127.0.0.1:${port}`]
  const result = await command('main.ts', [...FEW, '--', ...program])
  expect([result.code, result.out.match(/^kept {2}/gm)?.length, result.err]).toEqual([0, CHECKS.length, ''])
  expect(result.out).toMatch(new RegExp(`\\n${CHECKS.length} kept, 0 broken, 0 not run\\n$`))
})

test('our own program for the conformance command opens approvals and looks at them', async () => {
  const run = async (...args: string[]) => JSON.parse((await command('countersign.ts', args)).out)
  const { id, link } = await run('open', '60')
  expect((await fetch(link)).status).toBe(200)
  expect(await run('look', id)).toEqual({ status: 'pending', answers: 0 })
})

test('the conformance command with links only lists the checks that it could not run, and does not succeed', {
  timeout: 120_000,
}, async () => {
  const links: string[] = []
  for (let i = 0; i < 5; i++) links.push((await product.target.open())?.link ?? expect.fail('no link'))
  const result = await command('main.ts', [...FEW, '--json', ...links.flatMap((link) => ['--url', link])])
  const { settings, findings } = JSON.parse(result.out) as {
    settings: object
    findings: { name: string; outcome: string }[]
  } // as main.ts prints it
  expect([result.code, settings]).toMatchObject([2, { posts: 20, mutations: 100 }])
  expect(findings.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual(
    CHECKS.map(({ name }) => `${name} ${name === 'expiry' ? 'not run' : 'kept'}`),
  )
})

test.each([
  [[]],
  [['--url', 'x', '--', 'y']],
  [['--posts', '0', '--url', 'x']],
  [['--approve', 'x', '--url', 'x']],
  [['--what']],
])('the conformance command prints its usage for wrong arguments: %j', async (args) => {
  const result = await command('main.ts', args)
  expect([result.code, /Usage: node main\.ts/.test(result.err)]).toEqual([64, true])
})
