// Promise: the commands with which operators look after upstreams, workers, agents' webhooks, channels
// and runs do what their help says.

import { afterAll, expect, test } from 'vitest'
import { WebhookReceiver } from '../support/channels/webhook-receiver.ts'
import { countersign } from '../support/countersign.ts'
import { Fixtures, refusalOf, unwrap } from '../support/fixtures.ts'
import { startTestStack } from '../support/stack/stack.ts'
import { FakeUpstream, tool } from '../support/upstreams/fake-upstream.ts'
import { PeerWorker } from '../support/worker/peer-worker.ts'

const stack = await startTestStack({ worker: 'idle', loopbackChannels: true })
const fixtures = new Fixtures('commands', stack.dev)
const receiver = await WebhookReceiver.open()
const fake = await FakeUpstream.open('modern', [tool('search'), tool('write')])
afterAll(async () => {
  await stack.stop()
  await receiver.close()
  await fake.close()
})
const as =
  (key: string) =>
  async (...args: readonly string[]): Promise<string> => {
    const { code, out, err } = await countersign(args, {
      env: { COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: key },
    })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    return out
  }
const root = as(fixtures.rootKey)

test('`countersign upstreams` lists, shows and reads servers, withdraws a tool, removes a server, and logs all of it', async () => {
  expect(await root('upstreams', 'add', 'docs', fake.url)).toMatch(/docs_search\s+new/)
  const definition = /^definition (\w+)$/m.exec(await root('upstreams', 'diff', 'docs', 'search'))?.[1] ?? ''
  await root('upstreams', 'accept', 'docs', 'search', definition, '--not-sensitive')
  expect(await root('upstreams', 'list')).toMatch(
    /^docs\s+\S+\s+1 accepted, 0 changed, 0 gone, 1 new, 0 refused\s+read /m,
  )
  expect(await root('upstreams', 'show', 'docs')).toMatch(/docs_search\s+accepted/)
  fake.tools = [tool('search')]
  expect(await root('upstreams', 'refresh', 'docs')).not.toContain('docs_write')
  expect(await root('upstreams', 'withdraw', 'docs', 'search')).toBe('tool docs_search withdrawn\n')
  expect(await root('upstreams', 'show', 'docs')).toMatch(/docs_search\s+new/)
  expect(await root('upstreams', 'remove', 'docs')).toBe('upstream docs removed\n')
  expect(await root('upstreams', 'list')).toBe('no upstreams\n')
  const events = (await root('upstreams', 'log')).split('\n').map((line) => line.split(/ {2,}/)[2])
  expect(events.filter(Boolean)).toEqual(['event', 'put', 'tool accepted', 'tool withdrawn', 'removed'])
})

test('`countersign workers revoke` revokes a worker, and `workers list` says so', async () => {
  const peer = await PeerWorker.enrol(fixtures.url, fixtures.root, fixtures.pool)
  expect(await root('workers', 'revoke', peer.id)).toBe(`worker ${peer.id} revoked\n`)
  expect(await root('workers', 'list')).toMatch(new RegExp(`^${peer.id}\\s.*\\srevoked\\s`, 'm'))
})

test('`countersign operators rotate` shows a new key once, and the old one is refused', async () => {
  const key = /cs_operator_\S+/
  const put = await root('operators', 'put', 'rotating', '--roles', 'auditor')
  const rotated = await root('operators', 'rotate', 'rotating')
  const [former = '', current = ''] = [put, rotated].map((text) => key.exec(text)?.[0])
  expect(current).not.toBe(former)
  expect(await as(current)('calls', 'list')).toBe('no such calls\n')
  const env = { COUNTERSIGN_URL: stack.url, COUNTERSIGN_KEY: former }
  expect(await countersign(['calls', 'list'], { env })).toMatchObject({
    code: 1,
    err: expect.stringContaining('the key is missing, unknown or revoked'),
  })
})

test('`countersign agents rotate-webhook` shows another secret, once', async () => {
  const agent = await fixtures.agent({ webhook: { url: receiver.url } })
  const secret = /whsec_\S+/
  const [first] = secret.exec(await root('agents', 'rotate-webhook', agent.name)) ?? []
  const [second] = secret.exec(await root('agents', 'rotate-webhook', agent.name)) ?? []
  expect([first, second]).toEqual([expect.any(String), expect.any(String)])
  expect(second).not.toBe(first)
})

test('`countersign channels list` names each channel and no secret of it, and `channels retry` counts the messages that it sends again', async () => {
  expect(await root('channels', 'list')).toBe('no channels: approvals appear in the inbox only\n')
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
  const channel = { kind: 'webhook' as const, url: receiver.url, keys: [secret], after_s: 0 }
  unwrap(await fixtures.root('putChannel', { params: { name: 'pager' }, body: channel }))
  const listed = await root('channels', 'list')
  expect(listed).toMatch(/^pager\s+webhook\s+0 s\s+anybody who reads it\s/m)
  expect(listed).not.toContain(secret)
  expect(await root('channels', 'retry', 'pager')).toBe('0 messages will be sent again\n')
})

test('`countersign runs cancel` cancels a run and its calls with the key of the agent and with that of an operator', async () => {
  const agent = await fixtures.agent()
  const calls = await Promise.all(
    [1, 2].map(async () =>
      unwrap(await agent.client('proposeCallInNewRun', { body: { tool: await fixtures.tool(), args: {} } })),
    ),
  )
  for (const [call, run] of [
    [calls[0], as(agent.key)],
    [calls[1], root],
  ] as const) {
    const id = call?.run ?? ''
    expect(await run('runs', 'cancel', id)).toContain(id)
    const read = await agent.client('readCall', { params: { run: id, call: call?.id ?? '' } })
    expect(unwrap(read).state).toBe('cancelled')
    expect(
      refusalOf(await agent.client('proposeCall', { params: { run: id }, body: { tool: 'x', args: {} } })),
    ).toBe('409 run_cancelled')
  }
})
