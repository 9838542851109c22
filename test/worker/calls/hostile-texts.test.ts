// L5: no call's end is lost because of a tool's text, wherever in the statement that text appears.

import { expect, test } from 'vitest'
import type { FakeCall, Proposal } from '../../support/worker/fake-edge.ts'
import { loneWorkerForTests } from '../../support/worker/lone-worker.ts'

const lone = await loneWorkerForTests()

const execution = async (proposal: Proposal, change: (plan: FakeCall['plan']) => void = () => undefined) => {
  const call = lone.edge.propose(proposal)
  change(call.plan)
  await lone.ringFor(call)
  const { predicate } = (await lone.settled(call)).statement
  expect(call.settlements).toBe(1) // the first settlement was accepted
  return predicate.execution
}

const SOCKS = `
import os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ['HTTP_PROXY'])
def counted(text): return bytes([len(text)]) + text
s = socket.create_connection((proxy.hostname, proxy.port))
s.sendall(b'\\x05\\x01\\x02'); s.recv(2)
s.sendall(b'\\x01' + counted(proxy.username.encode()) + counted(proxy.password.encode())); s.recv(2)
s.sendall(b'\\x05\\x01\\x00\\x03' + counted(b'a\\x00b') + b'\\x00\\x50')
print(s.recv(10).hex())
`

test('N05 a host name with U+0000 requested from the proxy is reported as malformed', async () => {
  const { outcome, connections } = await execution({ argv: ['python3', '-c', SOCKS] }, (plan) =>
    Object.assign(plan.egress, { hosts: ['example.invalid'] }),
  )
  expect(outcome).toEqual({ kind: 'exit', code: 0 })
  expect(connections).toMatchObject([{ host: 'a\ufffdb:80', verdict: 'malformed' }])
})

test('an invalid result with a very long error is reported with a shortened error', async () => {
  const { outcome } = await execution(
    { argv: ['python3', '-c', `print('{"' + '\\U0001f600' * 300 + '": 1}')`] },
    (plan) =>
      Object.assign(plan.executor, { output: { type: 'object', additionalProperties: { type: 'string' } } }),
  )
  expect(outcome).toMatchObject({ kind: 'invalid_output' })
})

test('an uncollected output file with a very long path is reported with a shortened path', {
  timeout: 60_000,
}, async () => {
  const script = `
import os
os.chdir('/output')
for name in ('a' * 254, 'b' * 255):
    os.mkdir(name); os.chdir(name)
os.mkdir('c' * 88 + '\\U0001f600' * 40)`
  const { files } = await execution({ argv: ['python3', '-c', script], outputs: true })
  expect(files?.left).toEqual([
    { path: `${'a'.repeat(254)}/${'b'.repeat(255)}/${'c'.repeat(88)}`, why: 'name' },
  ])
})
