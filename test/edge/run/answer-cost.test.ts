// A call and an answer to an approval cost few requests between objects and few SQL statements, and
// a refused answer stores nothing.

import { afterAll, expect, test } from 'vitest'
import { bearer, client } from '../../../shared/routes/client.ts'
import { alarmHandled, costOf, countRequests, requestsFor } from '../../support/counted-requests.ts'
import { Fixtures, refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { runFileOf } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'
import { PeerWorker } from '../../support/worker/peer-worker.ts'

const stack = await startTestStack({ worker: 'idle' })
afterAll(() => stack.stop())
const { operator } = stack
const agent = client(stack.url, bearer(stack.dev.agent_key))

async function propose(tool: string): Promise<{ run: string; approval: string }> {
  const { run, approval } = unwrap(await agent('proposeCallInNewRun', { body: { tool, args: {} } }))
  if (approval === undefined) throw new Error('nobody is asked about the call')
  return { run, approval: approval.id }
}

const postForm = (link: string, fields: Record<string, string>) =>
  fetch(link, {
    method: 'POST',
    headers: { origin: new URL(stack.url).origin },
    body: new URLSearchParams(fields),
  })

test('an answer that policy refuses leaves no policy snapshot in its run', async () => {
  unwrap(
    await operator('putTool', {
      params: { name: 'reads_secrets' },
      body: toolSpec({ capabilities: ['secrets_read'] }),
    }),
  )
  const { run, approval } = await propose('reads_secrets')
  const { policies } = unwrap(await operator('readPolicies', {}))
  const other = { other: '@id("other") forbid (principal == Agent::"nobody", action, resource);' }
  unwrap(
    await operator('putPolicies', {
      body: { policies: { ...policies, ...other }, note: 'another snapshot from now on' },
    }),
  )
  const answer = (body: { decision: 'approve'; scope: 'session' }) =>
    operator('answerApproval', { params: { id: approval }, body })
  expect(refusalOf(await answer({ decision: 'approve', scope: 'session' }))).toBe('403 once_only')
  await stack.edge.stop()
  const db = runFileOf(run, stack.state.dir)
  const snapshots = db.prepare('select count(*) as n from snapshots').get()?.['n']
  db.close()
  await stack.edge.start()
  expect(snapshots).toBe(1) // of the decision that asked
})

test('a tier C call costs 6 requests and 16 SQL statements, and a denial 3 and 4', async () => {
  await countRequests(stack)
  const fixtures = new Fixtures('cost', stack.dev)
  const peer = await PeerWorker.enrol(stack.url, operator, fixtures.pool)
  const [allowed, denied] = [await fixtures.tool(), await fixtures.tool()]
  const { client: caller } = await fixtures.agent({ tools: [allowed] })
  const { id: run } = unwrap(await caller('createRun', { body: {} }))
  const proposed = async (tool: string) =>
    unwrap(await caller('proposeCall', { params: { run }, body: { tool, args: {} } }))
  const wholeCall = async () => peer.run((await proposed(allowed)).id)
  /** The least of several, because work in the background may fall into the same moment. */
  const least = async (work: () => Promise<unknown>): Promise<[requests: number, statements: number]> => {
    const costs = []
    for (let i = 0; i < 15; i++) costs.push(await costOf(stack, work))
    return [
      Math.min(...costs.map(({ requests }) => requests.length)),
      Math.min(...costs.map(({ statements }) => statements.length)),
    ]
  }
  expect(await least(wholeCall)).toEqual([6, 16])
  expect(await least(() => proposed(denied))).toEqual([3, 4])
})

test('an answer by a link requests the directory, the approval and the answer once each', async () => {
  unwrap(
    await operator('putTool', {
      params: { name: 'sends_mail' },
      body: toolSpec({ capabilities: ['network'] }),
    }),
  )
  const { approval } = await propose('sends_mail')
  const { url: link = '' } = unwrap(await operator('readApproval', { params: { id: approval } }))
  await alarmHandled(stack)
  const nonce = /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1] ?? ''
  const answered = await postForm(link, { nonce, decision: 'approve', reason: '' })
  expect(answered.status).toBe(200)
  expect(requestsFor(answered)).toEqual(['RUN.answer', 'RUN.approval', 'TENANT.directory'])
  expect(unwrap(await operator('readApproval', { params: { id: approval } })).status).toBe('approved')
})
