// Promise: at the command line an operator sees what an answer would cover before giving it, gives it for the session or for a time, finds
// it in the list, and takes it back.

import { expect, test } from 'vitest'
import { countersign } from '../support/countersign.ts'
import { Desk, granted } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const dev = sharedStack()
const desk = new Desk('standing-cli', dev)
const agent = await desk.agent()
const tool = await desk.tool({ capabilities: ['network'] })
const run = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const asked = async (session: string) =>
  granted(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run: { session } } }))

test('an answer for the session: said before, listed, taken back', async () => {
  const session = desk.name()
  const id = (await asked(session)).approval?.id ?? ''
  const covers = `every call of \`${tool}\` version 1 by agent \`${agent.name}\` in session \`${session}\``
  expect((await run('approvals', 'show', id)).out).toContain(`can stand  for 12 h at the most: ${covers}`)
  expect(await run('approvals', 'approve', id, '--session', '--for', '10m')).toMatchObject({ code: 2 })
  expect(await run('approvals', 'approve', id, '--for', 'ever')).toMatchObject({ code: 2 })
  expect(await run('approvals', 'approve', id, '--session')).toMatchObject({
    code: 0,
    out: expect.stringContaining('approve (session) by root'),
  })
  expect((await asked(session)).state).toBe('granted')
  const line =
    (await run('approvals', 'standing')).out.split('\n').find((text) => text.includes(covers)) ?? ''
  const [standing = ''] = /^std_\w+/.exec(line) ?? []
  expect(await run('approvals', 'revoke', standing)).toMatchObject({
    code: 0,
    out: `${standing} stands no more\n`,
  })
  expect(await run('approvals', 'revoke', standing)).toMatchObject({ code: 1 })
  expect((await run('approvals', 'standing')).out).not.toContain(covers)
  expect((await asked(session)).state).toBe('awaiting_approval')
})

test('an answer for a time, and a session that is reset', async () => {
  const session = desk.name()
  const id = (await asked(session)).approval?.id ?? ''
  expect(await run('approvals', 'deny', id, '--for', '10m', '--reason', 'not now')).toMatchObject({ code: 0 })
  expect((await asked(session)).state).toBe('rejected')
  expect(await run('sessions', 'reset', session, '--agent', agent.name)).toMatchObject({
    code: 0,
    out: '1 taken back\n',
  })
  expect((await asked(session)).state).toBe('awaiting_approval')
})

test('what policy wants asked each time says so before', async () => {
  const secret = await desk.tool({ capabilities: ['secrets_read'] })
  const call = await desk.asked(agent.client, secret)
  expect((await run('approvals', 'show', call.approval.id)).out).toContain(
    'can stand  no: policy wants a yes for each call',
  )
  const refused = await run('approvals', 'approve', call.approval.id, '--session')
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('nothing was recorded') })
})
