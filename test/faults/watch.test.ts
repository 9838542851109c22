// Promise: `approvals watch` and `calls follow` show each event once as it happens, even over a
// restart of the edge, and end when they are stopped.

import { dirname } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { Following } from '../support/cli-stream.ts'
import { eventually } from '../support/eventually.ts'
import { unwrap } from '../support/fixtures.ts'
import { HurtStack, insist, revive, strike } from '../support/stack/hurt-stack.ts'

const hurt = await HurtStack.start()
const open: Following[] = []
afterAll(async () => {
  for (const one of open) await one.end()
  await hurt.stop()
})

const following = (...args: string[]): Following => {
  const one = new Following(args, { COUNTERSIGN_STATE: dirname(hurt.stack.state.dev) })
  open.push(one)
  return one
}
const watching = (...flags: string[]): Following => following('approvals', 'watch', ...flags)
const newApproval = async (mark: string) => (await hurt.propose('mark_asking', { mark })).approval?.id ?? ''
const deny = (id: string, reason: string) =>
  insist(() => hurt.operator('answerApproval', { params: { id }, body: { decision: 'deny', reason } }))
const listed = (id: string) =>
  eventually('it is listed', async () =>
    unwrap(await hurt.operator('listApprovals', { query: {} })).items.some((item) => item.id === id),
  )

test('`approvals watch` shows waiting, new and answered approvals once each over a restart, and ends by Ctrl-C', async () => {
  const before = await newApproval('before')
  await listed(before)
  const [text, json] = [watching(), watching('--json')]
  for (const one of [text, json]) await one.line('what waited', (line) => line.includes(before))
  const during = await newApproval('during')
  expect(await text.line('a question', (line) => line.includes(during))).toMatch(
    new RegExp(`^\\S+Z {2}pending {2}${during} {2}\\w+ {2}dev wants to run mark_asking {2}http\\S+$`),
  )
  unwrap(await deny(before, 'not \u001b[31mnow'))
  expect(await text.line('an answer', (line) => line.includes('denied'))).toMatch(
    / {2}deny by root over api: not \\u\{1b\}\[31mnow$/,
  )
  const kept = await json.line('an answer', (line) => line.includes('"denied"'))
  expect(JSON.parse(kept)).toMatchObject({
    id: before,
    status: 'denied',
    answers: [{ by: 'root', reason: 'not \\u{1b}[31mnow' }],
  }) // as it is stored

  await strike(hurt.stack.edge)
  await eventually('both say so', () => [text, json].every(({ said }) => said.includes('retrying')), 30_000)
  await revive(hurt.stack.edge)
  unwrap(await deny(during, 'after the restart'))
  const after = await newApproval('after')
  for (const one of [text, json]) {
    await one.line('the answer', (line) => line.includes(during) && line.includes('after the restart'))
    await one.line('a new question', (line) => line.includes(after))
    expect(one.said).toContain('connected to the edge again')
  }
  // Each approval and each answer once, before or after the restart.
  for (const one of [text, json]) {
    const counts = [before, during, after].map(
      (id) => one.lines.filter((line) => line.includes(`${id}`)).length,
    )
    expect(counts).toEqual([2, 2, 1])
  }
  expect(await text.end('SIGINT')).toEqual({ code: 0, whole: true })
  expect(await json.end('SIGTERM')).toEqual({ code: 0, whole: true })
  for (const line of json.lines) JSON.parse(line)
})

test('`approvals watch` ends at once, with the reason, when its key is revoked', async () => {
  const { key = '' } = unwrap(
    await hurt.operator('putOperator', { params: { name: 'watcher' }, body: { roles: ['auditor'] } }),
  )
  const one = new Following(['approvals', 'watch'], { COUNTERSIGN_URL: hurt.stack.url, COUNTERSIGN_KEY: key })
  open.push(one)
  const id = await newApproval('for the watcher')
  expect(await one.line('a question', (line) => line.includes(id))).not.toContain('http') // no link: an auditor answers nothing
  unwrap(await hurt.operator('deleteOperator', { params: { name: 'watcher' } }))
  expect(await one.ended()).toEqual({ code: 1, whole: true })
  expect(one.said).toContain('set COUNTERSIGN_KEY')
})

test('`calls follow` prints each line of a call once over a restart, and reports a cancel by text and exit code', async () => {
  const text = following('call', 'talk_on', '--args', '{"mark":"x"}', '--follow')
  const id = await text.line('its id', (line) => line.startsWith('call_'))
  const [json, left] = [following('calls', 'follow', id, '--json'), following('calls', 'follow', id)]
  for (const one of [text, left]) {
    await one.line('a line of its output', (line) => line === '  │ line 1')
    await one.line('its progress', (line) => line === '  ┆ at 1')
  }
  expect(await left.end('SIGINT')).toEqual({ code: 0, whole: true })
  expect(left.lines.at(-2)).toMatch(/^running {2}talk_on {2}call_/) // the call continues
  await hurt.stack.edge.restart()
  await eventually('both say so', () => [text, json].every(({ said }) => said.includes('retrying')), 30_000)
  const so_far = text.lines.length
  await eventually('it goes on', () => text.lines.length > so_far + 5, 30_000)
  unwrap(
    await insist(() => hurt.operator('cancelCall', { params: { run: `run_${id.split('_')[1]}`, call: id } })),
  )
  for (const one of [text, json]) expect(await one.ended()).toEqual({ code: 1, whole: true })
  const printed = text.lines.filter((line) => line.startsWith('  │ '))
  expect(printed).toEqual(printed.map((_, i) => `  │ line ${i}`))
  expect(text.lines).toContain('cancelling: it runs until its worker stops it')
  expect(text.lines.find((line) => line.startsWith('cancelled'))).toContain(id)
  const events = json.lines.map(
    (line) => JSON.parse(line) as { event: string; data?: string; error?: unknown; state?: string },
  )
  const output = events.flatMap(({ event, data }) => (event === 'stdout' ? [data] : [])).join('')
  expect(output).toBe(printed.map((line) => `${line.slice(4)}\n`).join(''))
  expect(events.slice(-2)).toMatchObject([
    { event: 'end', error: { code: 'cancelled' } },
    { event: 'call', id, state: 'cancelled' },
  ])
})
