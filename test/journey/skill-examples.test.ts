// Promise: the examples in skills/ build, pass their type checks and tests, and run as described:
// one computes, one reads from a host that its manifest names, one is compiled from AssemblyScript.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import type { CliResult } from '../support/countersign.ts'
import { countersign } from '../support/countersign.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const fixtures = new Fixtures('example', sharedStack())
const folder = mkdtempSync(join(tmpdir(), 'countersign-examples-'))
afterAll(() => rmSync(folder, { recursive: true }))
const env = { COUNTERSIGN_STATE: sharedState(), XDG_CONFIG_HOME: join(folder, 'config') }
const run = (...args: readonly string[]): Promise<CliResult> => countersign(args, { cwd: folder, env })
async function done(ran: Promise<CliResult>): Promise<string> {
  const { code, out, err } = await ran
  expect({ code, err }, out).toEqual({ code: 0, err: '' })
  return out
}

const EXAMPLES = readdirSync(join(ROOT, 'skills'), { withFileTypes: true }).flatMap((entry) =>
  entry.isDirectory() ? [entry.name] : [],
)

beforeAll(async () => {
  for (const name of EXAMPLES) cpSync(join(ROOT, 'skills', name), join(folder, name), { recursive: true })
  const x = /public +(\S+)/.exec(await done(run('skill', 'keygen', 'examples')))?.[1] ?? ''
  await done(run('skill', 'publishers', 'put', 'examples', x))
})

test('there are three example skills', () => {
  expect(EXAMPLES.sort()).toEqual(['http-get', 'json-query', 'redact'])
})

describe.each(EXAMPLES)('%s', (name) => {
  test(`the example skill ${name} passes its tests`, async () => {
    expect(await done(run('skill', 'test', name))).toMatch(/^\d+ passed$/m)
  })

  test(`the example skill ${name} is published without a warning`, async () => {
    await done(run('skill', 'build', name))
    const { warnings } = JSON.parse(await done(run('skill', 'publish', name, '--json')))
    expect(warnings).toEqual([])
  })
})

test('the example skills in TypeScript pass their type checks', () => {
  for (const name of ['json-query', 'http-get']) {
    const argv = [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', join(ROOT, 'skills', name)]
    expect(spawnSync(process.execPath, argv, { encoding: 'utf8' })).toMatchObject({ status: 0, stdout: '' })
  }
})

test('the example skill in AssemblyScript has the bindings of the template', () => {
  for (const file of ['index.ts', 'skill.ts', 'json.ts']) {
    const [ours, theirs] = ['skills/redact/assembly', 'cli/skills/templates/assemblyscript/assembly'].map(
      (path) => readFileSync(join(ROOT, path, file), 'utf8'),
    )
    expect(ours).toBe(theirs)
  }
})

test('an agent calls the example skills and gets their results', async () => {
  const other = await fixtures.operator(['admin'])
  const asOther = (...args: readonly string[]) =>
    countersign(args, { cwd: folder, env: { COUNTERSIGN_URL: fixtures.url, COUNTERSIGN_KEY: other.key } })
  for (const name of ['json-query', 'redact']) await done(asOther('skill', 'enable', name, '1.0.0'))
  const data = {
    orders: [
      { id: 'a', total: 50 },
      { id: 'b', total: 250 },
    ],
  }
  writeFileSync(join(folder, 'args.json'), JSON.stringify({ data, path: '$.orders[?@.total > 100].id' }))
  expect(await done(run('call', 'json-query_query', '--args', '@args.json'))).toContain(
    '{"values":["b"],"count":1}',
  )
  const text = JSON.stringify({ text: 'mail ann@example.com' })
  expect(await done(run('call', 'redact_redact', '--args', text))).toContain('"text":"mail [email]"')
})
