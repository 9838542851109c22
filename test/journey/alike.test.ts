// Promise: on the command line, identical approvals are one line with their number, and an operator
// who gives that number answers all of them.

import { expect, test } from 'vitest'
import { countersign } from '../support/countersign.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { sharedStack, sharedState } from '../support/stack/stack.ts'

const fixtures = new Fixtures('alike-cli', sharedStack())
const agent = await fixtures.agent()
const tool = await fixtures.tool({ capabilities: ['network'], input_schema: { type: 'object' } })
const run = (...argv: string[]) => countersign(argv, { env: { COUNTERSIGN_STATE: sharedState() } })
const asked = async (args: Record<string, unknown> = {}) =>
  (await fixtures.proposeForApproval(agent.client, tool, args)).approval.id

test('three identical approvals are one line; `--alike 3` answers each of them, another number none', async () => {
  const other = await asked({ n: 1 })
  const ids = [await asked(), await asked(), await asked()]
  const mine = async (...flags: string[]) => {
    const { out } = await run('approvals', 'list', ...flags)
    return out.split('\n').filter((line) => line.includes(` ${agent.name} `))
  }
  await eventually('all are listed', async () => (await mine('--each')).length === 4)
  expect((await mine()).map((line) => line.split(/ +/).slice(0, 5))).toEqual([
    [ids[0], 'pending', 'medium', agent.name, '3'],
    [other, 'pending', 'medium', agent.name, '1'],
  ])
  for (const number of ['2', '4']) {
    const refused = await run('approvals', 'approve', ids[1] ?? '', '--alike', number)
    expect(refused).toMatchObject({
      code: 1,
      err: expect.stringContaining(`there are now 3 identical approvals, not ${number}`),
    })
  }
  expect(await run('approvals', 'approve', ids[1] ?? '', '--alike', 'all')).toMatchObject({ code: 2 })
  expect(
    await run('approvals', 'approve', ids[1] ?? '', '--alike', '3', '--reason', 'all of them'),
  ).toMatchObject({
    code: 0,
    out: ids.map((id) => `${id} approved\n`).join(''),
  })
  for (const id of ids) {
    const { answers } = unwrap(await fixtures.root('readApproval', { params: { id } }))
    expect(answers).toMatchObject([{ by: 'root', channel: 'api', reason: 'all of them' }])
  }
  expect(unwrap(await fixtures.root('readApproval', { params: { id: other } })).status).toBe('pending')
})
