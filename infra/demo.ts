// `npm run demo`: the story in a terminal. A harmless call runs; a sensitive one waits, is approved through its link, runs in tier C and is
// verified offline; a forbidden one is denied with its reason. Uses the stack that runs, or starts one and stops it again.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { z } from 'zod'
import { bearer, type Client, client, type Problem } from '../shared/client.ts'
import type { Result } from '../shared/result.ts'
import type { Call } from '../shared/wire.ts'
import type { DevInfo } from './seed.ts'
import { sayOnStderr as say } from './setup.ts'
import { startStack } from './stack.ts'
import { ROOT, stateDir } from './state.ts'
import { fail } from './terminal.ts'

type Called = z.infer<typeof Call>

const bold = (text: string): string => (process.stdout.isTTY && !process.env['NO_COLOR'] ? `\x1b[1m${text}\x1b[22m` : text)
const tell = (text: string): void => console.log(`  ${text}`)
const title = (text: string): void => console.log(`\n${bold(text)}`)

/** An answer of the edge, or the end of the demo with what it said. */
const must = <T>(answer: Result<T, Problem>): T => {
  if (answer.ok) return answer.value
  throw new Error(`the edge answered ${answer.error.status} ${answer.error.code}: ${answer.error.detail}`)
}

function show({ tool, state, decision, plan, result, attestation }: Called): void {
  tell(`decision    ${decision.effect}: ${decision.reason} (${decision.policies.join(', ')})`)
  if (state === 'succeeded') {
    tell(`ran in      tier ${plan?.tier}, sandbox ${attestation?.sandbox_enforcement} (${attestation?.executor})`)
    tell(`output      ${result?.output.trim()}`)
  }
  tell(`state       ${state}${attestation === undefined ? '' : `, attested: ${attestation.id}`}`)
  if (result?.ok === false && state !== 'denied') throw new Error(`\`${tool}\` ${state}: ${result.error?.detail ?? result.stderr}`)
}

async function harmless(agent: Client): Promise<void> {
  title('1. A harmless call: counting words')
  show(must(await agent('proposeCallInNewRun', { wait: 10, body: { tool: 'text.stats', args: { text: 'who signs, answers\n' } } })))
}

async function sensitive(agent: Client, operator: Client, dev: DevInfo): Promise<void> {
  title('3. A sensitive call: running a program')
  const asked = must(
    await agent('proposeCallInNewRun', { body: { tool: 'process.run', args: { command: 'sha256sum', args: ['/usr/bin/env'] } } }),
  )
  const { approval } = asked
  if (approval === undefined) throw new Error(`it should wait for a human, and is \`${asked.state}\``)
  show(asked)
  const { url } = must(await operator('readApproval', { params: { id: approval.id } }))
  if (url === undefined) throw new Error('the approval has no link')
  tell(`link        ${url.replace(/[^.]{8,}$/, '…')}  (opening it shows the page and changes nothing)`)
  await answerOnPage(url)
  tell('approved    through the link, by what the page’s button sends')
  const call = must(await agent('readCall', { wait: 10, params: { run: asked.run, call: asked.id } }))
  show(call)
  verifyOffline(must(await agent('readAttestation', { params: { run: call.run, call: call.id } })), dev)
}

/** What the browser does: get the page, send its form back with the answer. */
async function answerOnPage(url: string): Promise<void> {
  const page = await (await fetch(url)).text()
  const form = new URLSearchParams({ decision: 'approve', reason: 'the demo' })
  for (const [, name = '', value = ''] of page.matchAll(/<input[^>]*type="hidden"[^>]*name="([^"]+)"[^>]*value="([^"]*)"/g))
    form.set(name, value)
  const headers = { origin: new URL(url).origin, 'sec-fetch-site': 'same-origin' }
  const answer = await fetch(url, { method: 'POST', body: form, headers })
  if (!answer.ok) throw new Error(`the page answered ${answer.status}`)
}

function verifyOffline(bundle: unknown, dev: DevInfo): void {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-demo-'))
  try {
    writeFileSync(join(folder, 'bundle.json'), JSON.stringify(bundle))
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(dev.keys))
    tell('offline     countersign verify bundle.json --keys keys.json')
    const verify = [join(ROOT, 'cli/main.ts'), 'verify', join(folder, 'bundle.json'), '--keys', join(folder, 'keys.json')]
    const { status, stdout, stderr } = spawnSync(process.execPath, verify, { encoding: 'utf8', env: { PATH: '/usr/bin:/bin' } })
    for (const line of `${stdout}${stderr}`.trimEnd().split('\n')) tell(`            ${line}`)
    if (status !== 0) throw new Error('the attestation does not verify')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function forbidden(agent: Client): Promise<void> {
  title('2. A forbidden call: fetching the cloud’s secrets')
  const args = { url: 'http://169.254.169.254/latest/meta-data/' }
  const call = must(await agent('proposeCallInNewRun', { wait: 10, body: { tool: 'http.fetch', args } }))
  show(call)
  if (call.state !== 'denied') throw new Error(`it should be denied, and is \`${call.state}\``)
}

async function running(): Promise<DevInfo | undefined> {
  const path = join(stateDir(), 'dev.json')
  if (!existsSync(path)) return undefined
  const dev = JSON.parse(readFileSync(path, 'utf8')) as DevInfo // written by the stack
  const answer = await fetch(`${dev.url}/readyz`, { signal: AbortSignal.timeout(2_000) }).catch(() => undefined)
  return answer?.ok ? dev : undefined
}

async function demo(dev: DevInfo): Promise<void> {
  const agent = client(dev.url, bearer(dev.agent_key))
  await harmless(agent)
  await forbidden(agent)
  await sensitive(agent, client(dev.url, bearer(dev.operator_key)), dev)
}

const found = await running()
const own = found === undefined ? await startStack({ state: stateDir(), say }) : undefined
if (own !== undefined && !own.ok) fail(say, own.error)
const dev = found ?? (own?.ok ? own.value.dev : undefined)
let code = 0
try {
  if (dev !== undefined) await demo(dev)
  console.log(`\n${bold('verified')}: one allowed, one denied, one approved by a human; each decided, attested and in the log`)
} catch (error) {
  say(error instanceof Error ? error.message : String(error))
  code = 1
}
if (own?.ok) await own.value.stop()
process.exit(code)
