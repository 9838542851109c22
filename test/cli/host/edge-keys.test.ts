// Promise: a command that changes the edge's keys and can't store them says what to do, and what it has
// changed.

import { generateKeyPairSync } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { EDGE_KEYS } from '../../../cli/host/edge-keys.ts'

let state: string
const file = (name: string) => join(state, name)
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'countersign-keys-'))
  vi.stubEnv('COUNTERSIGN_STATE', state)
  const edge = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  writeFileSync(file('secrets.json'), JSON.stringify({ edge, other: 1 }))
  writeFileSync(file('edge.env'), `A='1'\nEDGE_SIGNING_KEY='${JSON.stringify(edge)}'\n`)
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(state, { recursive: true })
})

const rotate = async () => {
  const command = EDGE_KEYS.find(({ words }) => words[1] === 'rotate')
  return command?.run({ args: {}, flags: {} } as never) // it reads the state folder alone
}
const stored = (name: string) => readFileSync(file(name), 'utf8')
const chain = () => (JSON.parse(stored('secrets.json')) as { edge: { chain?: unknown[] } }).edge.chain

test('a rotation stores its keys in both files, and leaves no draft', async () => {
  expect(await rotate()).toMatchObject({ ok: true })
  const { edge, other } = JSON.parse(stored('secrets.json')) as { edge: object; other: number }
  expect([chain()?.length, other]).toEqual([1, 1])
  expect(stored('edge.env')).toBe(`A='1'\nEDGE_SIGNING_KEY='${JSON.stringify(edge)}'\n`)
  expect([existsSync(file('secrets.json.new')), existsSync(file('edge.env.new'))]).toEqual([false, false])
})

test('a draft of an interrupted change is not overwritten, and the error names it and what to do', async () => {
  writeFileSync(file('secrets.json.new'), 'half')
  const before = stored('secrets.json')
  const { error } = (await rotate()) as { error: { detail: string; todo: string } }
  expect(error.detail).toContain(`if none runs, remove \`${file('secrets.json.new')}\``)
  expect(error.todo).toContain('nothing has changed')
  expect([stored('secrets.json'), stored('secrets.json.new')]).toEqual([before, 'half'])
})

test('if only `edge.env` could not be written, the error says how to write it without another key', async () => {
  writeFileSync(file('edge.env.new'), 'half')
  const error = JSON.stringify(await rotate())
  expect(error).toContain(`if none runs, remove \`${file('edge.env.new')}\``)
  expect(error).toContain('npm run prepare-host')
  expect(chain()).toHaveLength(1)
})
