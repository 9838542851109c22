// An answer to an approval costs few requests between objects, and a refused answer stores nothing.

import { afterAll, expect, test } from 'vitest'
import { bearer, client } from '../../../shared/routes/client.ts'
import { alarmHandled, countRequests, requestsFor } from '../../support/counted-requests.ts'
import { refusalOf, toolSpec, unwrap } from '../../support/fixtures.ts'
import { runFileOf } from '../../support/stack/object-file.ts'
import { startTestStack } from '../../support/stack/stack.ts'

const stack = await startTestStack()
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

test('an answer by a link requests the directory, the approval and the answer once each', async () => {
  unwrap(
    await operator('putTool', {
      params: { name: 'sends_mail' },
      body: toolSpec({ capabilities: ['network'] }),
    }),
  )
  await stack.worker.stop() // it would claim the call
  await countRequests(stack)
  const { approval } = await propose('sends_mail')
  const { url: link = '' } = unwrap(await operator('readApproval', { params: { id: approval } }))
  await alarmHandled(stack)
  const nonce = /name="nonce" value="([^"]+)"/.exec(await (await fetch(link)).text())?.[1] ?? ''
  const answered = await postForm(link, { nonce, decision: 'approve', reason: '' })
  expect(answered.status).toBe(200)
  expect(requestsFor(answered)).toEqual(['RUN.answer', 'RUN.approval', 'TENANT.directory'])
  expect(unwrap(await operator('readApproval', { params: { id: approval } })).status).toBe('approved')
})
