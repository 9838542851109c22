// Promise: on the command line, an operator sees what a standing answer would cover, gives it for
// the session or for a time, finds it in the list and revokes it.

import { expect, test } from 'vitest'
import { countersign } from '../support/countersign.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const dev = sharedStack()
const fixtures = new Fixtures('standing-cli', dev)
const agent = await fixtures.agent()
const tool = await fixtures.tool({ capabilities: ['network'] })
const run = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const asked = async (session: string) =>
  unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {}, run: { session } } }))

test('an approval for the session shows its scope beforehand, is listed, and can be revoked', async () => {
  const session = fixtures.name()
  const id = (await asked(session)).approval?.id ?? ''
  const covers = `every call of \`${tool}\` version 1 by agent \`${agent.name}\` in session \`${session}\``
  expect((await run('approvals', 'show', id)).out).toContain(
    `standing answer  possible for up to 12 h: ${covers}`,
  )
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
    out: `standing answer ${standing} revoked\n`,
  })
  expect(await run('approvals', 'revoke', standing)).toMatchObject({ code: 1 })
  expect((await run('approvals', 'standing')).out).not.toContain(covers)
  expect((await asked(session)).state).toBe('awaiting_approval')
})

test('a denial for a time applies to further calls until the session is reset', async () => {
  const session = fixtures.name()
  const id = (await asked(session)).approval?.id ?? ''
  expect(await run('approvals', 'deny', id, '--for', '10m', '--reason', 'not now')).toMatchObject({ code: 0 })
  expect((await asked(session)).state).toBe('rejected')
  expect(await run('sessions', 'reset', session, '--agent', agent.name)).toMatchObject({
    code: 0,
    out: '1 revoked\n',
  })
  expect((await asked(session)).state).toBe('awaiting_approval')
})

test('if policy requires an approval for each call, the approval says so and a standing answer is refused', async () => {
  const secret = await fixtures.tool({ capabilities: ['secrets_read'] })
  const call = await fixtures.proposeForApproval(agent.client, secret)
  expect((await run('approvals', 'show', call.approval.id)).out).toContain(
    'standing answer  not possible: policy requires an approval for each call',
  )
  const refused = await run('approvals', 'approve', call.approval.id, '--session')
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining('nothing was recorded') })
})
