// Promise: a TypeScript client that is generated from /openapi.json type-checks, refuses wrong
// requests when it is compiled, and makes a call at a real edge. openapi-typescript and
// openapi-fetch are in the package of test/agents.

import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'

const run = promisify(execFile)
const fixtures = new Fixtures('openapi-typescript', sharedStack())
const PACKAGES = join(ROOT, 'test/agents/node_modules')

const PROGRAM = `
import createClient from 'openapi-fetch'
import type { paths } from './api.ts'

const [url = '', key = '', tool = ''] = process.argv.slice(2)
const client = createClient<paths>({ baseUrl: url, headers: { authorization: \`Bearer \${key}\` } })
const made = await client.POST('/v1/calls', {
  params: { header: { 'Idempotency-Key': 'once', Prefer: 'wait=0' } },
  body: { tool, args: { text: 'a' } },
})
if (made.data === undefined) throw new Error(made.error.detail)
const { id, state, decision } = made.data
const read = await client.GET('/v1/calls/{call}', { params: { path: { call: id } } })
const list = await client.GET('/v1/calls', { params: { query: { state: 'granted', limit: 5 } } })
const refused = await client.GET('/v1/runs/{run}', { params: { path: { run: 'run_x' } } })
console.log(JSON.stringify([
  made.response.status, state, decision.effect, read.data?.id === id,
  Array.isArray(list.data?.items), refused.error?.code,
]))

export const wrong = [
  // @ts-expect-error a call needs arguments
  () => client.POST('/v1/calls', { body: { tool } }),
  // @ts-expect-error no such state
  () => client.GET('/v1/calls', { params: { query: { state: 'finished' } } }),
  // @ts-expect-error no such path
  () => client.GET('/v1/call', {}),
]
`

test('a client that openapi-typescript generates from /openapi.json compiles and makes a call', {
  timeout: 120_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-openapi-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [agent, tool] = [await fixtures.agent(), await fixtures.tool()]
  const document = await (await fetch(new URL('/openapi.json', fixtures.url))).text()
  writeFileSync(join(folder, 'openapi.json'), document)
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'main.ts'), PROGRAM)
  symlinkSync(PACKAGES, join(folder, 'node_modules'))
  const options = { cwd: folder }
  await run(join(PACKAGES, '.bin/openapi-typescript'), ['openapi.json', '-o', 'api.ts'], options)
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--allowImportingTsExtensions']
  const types = ['--module', 'nodenext', '--skipLibCheck', '--typeRoots', join(ROOT, 'node_modules/@types')]
  const lib = ['--lib', 'esnext,dom,dom.iterable', '--types', 'node']
  await run(join(ROOT, 'node_modules/.bin/tsc'), [...strict, ...types, ...lib, 'main.ts'], options)
  const { stdout } = await run(process.execPath, ['main.ts', fixtures.url, agent.key, tool], options)
  expect(JSON.parse(stdout)).toEqual([202, 'granted', 'allow', true, true, 'not_found'])
})
