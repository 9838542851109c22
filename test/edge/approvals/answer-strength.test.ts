// If policy requires a stronger assurance than a yes has, the yes is refused and the approval stays
// pending.

import { expect, test } from 'vitest'
import { Fixtures, unwrap } from '../../support/fixtures.ts'
import { sharedStack } from '../../support/stack/stack.ts'

const fixtures = new Fixtures('assurance', sharedStack())

/** Sends the form as the approval page does when its button is pressed. */
async function press(link: string, decision: 'approve' | 'deny'): Promise<{ status: number; page: string }> {
  const nonce =
    /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1] ??
    expect.fail('the page has no form')
  const headers = {
    origin: new URL(fixtures.url).origin,
    'content-type': 'application/x-www-form-urlencoded',
  }
  const answer = await fetch(link, {
    method: 'POST',
    headers,
    body: new URLSearchParams({ nonce, decision, reason: '' }).toString(),
  })
  return { status: answer.status, page: await answer.text() }
}

test('`surer_only`: where policy requires assurance `key`, a link can deny and can’t approve', async () => {
  const [agent, tool, surely] = [
    await fixtures.agent(),
    await fixtures.tool({ capabilities: ['network'] }),
    fixtures.name(),
  ]
  const rule = `@id("${surely}") forbid (principal, action == Action::"tool.execute/${tool}", resource) when { context.approval.granted && context.approval.assurance != "key" };`
  await fixtures.withPolicies({ [surely]: rule }, async () => {
    const { approval } = await fixtures.proposeForApproval(agent.client, tool)
    const other = (await fixtures.proposeForApproval(agent.client, tool)).approval
    const read = async (id: string) => unwrap(await fixtures.root('readApproval', { params: { id } }))
    const { status, page } = await press(await fixtures.link(fixtures.root, approval.id), 'approve')
    expect([status, page.includes('in the console or on the command line')]).toEqual([403, true])
    expect(await read(approval.id)).toMatchObject({ status: 'pending', answers: [] })
    unwrap(await fixtures.approve(approval.id))
    expect((await read(approval.id)).status).toBe('approved')
    expect((await press(await fixtures.link(fixtures.root, other.id), 'deny')).status).toBe(200)
    expect((await read(other.id)).status).toBe('denied')
  })
})
