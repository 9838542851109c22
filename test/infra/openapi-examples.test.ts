// Promise: every operation of the API description has an example that a real edge has accepted and
// answered. `UPDATE_GOLDEN=1` records them again; each run sends them again and compares the
// shapes.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { isDescribed } from '../../edge/http/openapi/document.ts'
import { EXAMPLES, type Example } from '../../edge/http/openapi/examples.ts'
import { ROOT } from '../../infra/state.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import type { RouteName } from '../../shared/routes/all.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Input, Output } from '../../shared/routes/client.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import type { Route } from '../../shared/routes/route.ts'
import { WebhookReceiver } from '../support/channels/webhook-receiver.ts'
import { eventually } from '../support/eventually.ts'
import { Fixtures, unwrap } from '../support/fixtures.ts'
import { StrictStore } from '../support/s3/strict-store.ts'
import { component, Publisher } from '../support/skills/skill.ts'
import { startTestStack } from '../support/stack/stack.ts'
import { installation } from '../support/tenants.ts'
import { newSigningKey, TokenIssuer } from '../support/tokens/token-issuer.ts'
import { FakeUpstream, tool } from '../support/upstreams/fake-upstream.ts'
import { newSigner, PeerWorker } from '../support/worker/peer-worker.ts'

const FILE = join(ROOT, 'edge/http/openapi/examples.json')
const TENANT = 'examples'
const stack = await startTestStack({ worker: 'idle', loopbackChannels: true }) // upstreams are on loopback
const { dev } = stack
const receiver = await WebhookReceiver.open()
const store = await StrictStore.start()
const upstream = await FakeUpstream.open('modern', [tool('search')])
afterAll(async () => {
  await stack.stop()
  await Promise.all([upstream.close(), receiver.close(), store.stop()])
})
const described = (Object.entries(ROUTES) as [RouteName, Route][]).filter(([, route]) => isDescribed(route))

// ── Recording ──

const recorded: Record<string, Example> = {}

/** Sends a request, and records it with its answer under the name of the route. */
async function record<N extends RouteName>(by: Client, name: N, input: Input<N>): Promise<Output<N>> {
  const value = unwrap(await by(name, input))
  const route: Route = ROUTES[name]
  const { params, query, body } = input as Record<'params' | 'query' | 'body', Record<string, unknown>>
  const parameters = { ...params, ...query }
  recorded[name] = {
    ...(Object.keys(parameters).length === 0 ? {} : { parameters: tidy(parameters) }),
    ...(body === undefined || route.raw ? {} : { request: tidy(body) }),
    ...(route.media === undefined ? { response: tidy(value) } : {}),
  }
  return value
}

const names = new Map<string, string>()
/** The same text for the same text, in the order of appearance. */
const nth = (kind: string, text: string, make: (n: number) => string): string => {
  const known = names.get(`${kind} ${text}`)
  if (known !== undefined) return known
  const made = make([...names.keys()].filter((key) => key.startsWith(`${kind} `)).length + 1)
  names.set(`${kind} ${text}`, made)
  return made
}
const EIGHT_O_CLOCK = Date.UTC(2026, 10, 19, 8)
const began = Date.now()
const HOST = new URL(dev.url).host

/**
 * A text without the parts that differ from run to run: ids, keys, digests, addresses. Long ones
 * are cut.
 */
function tidyText(text: string): string {
  const plain = text
    .replaceAll(dev.url.replace(/\/$/, ''), 'https://countersign.example.com')
    .replaceAll(HOST, 'countersign.example.com')
    .replaceAll(upstream.origin, 'https://mcp.example.com')
    .replaceAll(store.url, 'https://s3.example.com')
    .replaceAll(receiver.url, 'https://agents.example.com')
    .replace(/whsec_\S+/g, `whsec_${Buffer.alloc(32, 7).toString('base64')}`)
    .replace(/cs_([a-z]+)_examples_[0-9A-Z]{26}_[0-9A-Z]{52}/g, 'cs_$1_acme_01KAD…')
    .replace(/\/approve\/\S+/g, '/approve/acme.apr_01KAD….…')
    .replaceAll(TENANT, 'acme')
    .replace(
      /\b(run|call|apr|att|std|wrk)_([0-9A-HJKMNP-TV-Z]{26})/g,
      (_, kind: string, id: string) =>
        `${kind}_${nth('id', id, (n) => `01KADX0${String(n).padStart(19, '0')}`)}`,
    )
    .replace(/\b[0-9a-f]{64}\b/g, (digest) => nth('digest', digest, (n) => sha256(`example ${n}`)))
    .replace(
      /\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/g,
      '3f0c2b1e-5d0a-4c37-9d4e-2f6a7b8c9d0e',
    )
  if (/^[A-Za-z0-9+/]{200,}=*$/.test(plain)) return Buffer.from('{"…":"cut"}').toString('base64')
  if (/^[A-Za-z0-9+/]{86}==$/.test(plain)) return Buffer.alloc(64, 7).toString('base64')
  return plain.length > 80 ? `${plain.slice(0, 60)}…` : plain
}

/** One item of a list stands for all. Times are counted from eight o’clock. */
function tidy(value: unknown): never {
  if (typeof value === 'string') return tidyText(value) as never
  if (typeof value === 'number') {
    const isTime = value > 1.6e12 && value < 4e12
    return (isTime ? EIGHT_O_CLOCK + Math.round((value - began) / 1000) * 1000 : value) as never
  }
  if (Array.isArray(value)) return value.slice(0, 1).map(tidy) as never
  if (typeof value !== 'object' || value === null) return value as never
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, field]) => field !== undefined)
      .map(([name, field]) => [tidyText(name), tidy(field)]),
  ) as never
}

/** Names and kinds, without values. */
function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.slice(0, 1).map(shapeOf)
  if (typeof value !== 'object' || value === null) return value === null ? null : typeof value
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, shapeOf(field)]))
}

// ── One small company, and everything that its people and agents do in a day ──

const governor = installation(dev)
const why = { reason: 'reviewed with the team' }

async function actors() {
  const made = await record(governor, 'createTenant', {
    body: { name: TENANT, operator: 'root', quota: { calls_per_day: 100_000 } },
  })
  const root = client(dev.url, bearer(made.key))
  const fixtures = new Fixtures(TENANT, { ...dev, tenant: TENANT, operator_key: made.key })
  const pool = fixtures.pool
  await record(root, 'putOperator', { params: { name: 'ada' }, body: { roles: ['admin'] } })
  await record(root, 'listOperators', {})
  const ada = await record(root, 'rotateOperatorKey', { params: { name: 'ada' } })
  await record(root, 'putAgent', {
    params: { name: 'triage' },
    body: { tools: ['*'], groups: ['support'], pool },
  })
  await record(root, 'listAgents', {})
  await record(root, 'readUsage', {})
  const triage = await record(root, 'rotateAgentKey', { params: { name: 'triage' } })
  return { root, ada: fixtures.clientOf(ada.key), agent: fixtures.clientOf(triage.key), fixtures, pool }
}
type Actors = Awaited<ReturnType<typeof actors>>

async function tenants(): Promise<void> {
  const params = { tenant: TENANT }
  await record(governor, 'listTenants', { query: {} })
  await record(governor, 'readTenant', { params })
  await record(governor, 'putQuota', { params, body: { calls_per_day: 200_000 } })
  await record(governor, 'suspendTenant', { params, body: why })
  await record(governor, 'resumeTenant', { params, body: why })
  await record(governor, 'readInstallationJournal', { query: { after: 0 } })
}

async function exports({ root }: Actors): Promise<void> {
  const { id: run } = unwrap(await root('listRuns', { query: {} })).items[0] ?? { id: '' }
  await record(root, 'putExportTarget', { body: store.target({ prefix: 'countersign/' }) })
  await record(root, 'readExportTarget', {})
  await record(root, 'storeExport', { params: { run }, query: {} })
  await record(root, 'readExport', { params: { run }, query: {} })
  await record(root, 'deleteExportTarget', {})
}

async function retention({ root }: Actors): Promise<void> {
  const params = { subject: 'tenant' }
  await record(root, 'putRetention', { body: { outputs: 90, arguments: 365, evidence: null } })
  await record(root, 'readRetention', {})
  await record(root, 'putHold', { params, body: why })
  await record(root, 'listHolds', {})
  await record(root, 'liftHold', { params, body: why })
  await record(root, 'readTenantJournal', { query: { after: 0 } })
}

async function tools({ root, agent }: Actors): Promise<void> {
  const shape = { type: 'object', required: ['to'], additionalProperties: false }
  await record(root, 'putTool', {
    params: { name: 'send_report' },
    body: {
      description: 'Sends a report to one address.',
      input_schema: { ...shape, properties: { to: { type: 'string', maxLength: 200 } } },
      capabilities: ['network'],
      executor: { kind: 'process', tiers: ['C'], argv: ['send-report', '{to}'], stdin: 'none' },
      egress: { mode: 'strict', hosts: ['mail.example.com:443'] },
      workspace: 'call',
      limits: { timeout_ms: 10_000 },
    },
  })
  unwrap(
    await root('putTool', {
      params: { name: 'count_words' },
      body: {
        description: 'Counts the words of a file.',
        input_schema: { type: 'object', properties: {} },
        capabilities: [],
        executor: { kind: 'process', tiers: ['B', 'C'], argv: ['wc', '-w', '/input/a.txt'], stdin: 'none' },
        egress: { mode: 'strict', hosts: [] },
        workspace: 'call',
        input_files: true,
        limits: {},
      },
    }),
  )
  await record(root, 'readTool', { params: { name: 'send_report' } })
  await record(agent, 'listTools', {})
}

async function calls({ root, agent }: Actors, peer: PeerWorker): Promise<string> {
  const { id: run } = await record(agent, 'createRun', { body: { session: 'chat-42' } })
  const bytes = Buffer.from('who signs, answers')
  const digest = sha256(bytes)
  await record(agent, 'putFile', { params: { run, sha256: digest }, body: bytes })
  await record(agent, 'listFiles', { params: { run } })
  const files = [{ path: 'a.txt', sha256: digest }]
  const { id: call } = await record(agent, 'proposeCall', {
    params: { run },
    body: { tool: 'count_words', args: {}, files },
  })
  await peer.run(call, { stdout: '3' })
  const params = { run, call }
  await record(agent, 'readCall', { params })
  await record(agent, 'readCallById', { params: { call } })
  await record(agent, 'readFile', { params: { ...params, sha256: digest } })
  await record(agent, 'readAttestation', { params })
  await record(agent, 'readSnapshot', { params })
  await record(agent, 'explainCall', { params })
  await record(agent, 'readJournal', { params: { run }, query: { after: 0 } })
  for (const name of ['followCall', 'streamEvents'] as const)
    recorded[name] = { parameters: tidy(name === 'followCall' ? params : { run }) }
  await eventually('the call is in the lists', async () => {
    const ended = unwrap(await agent('listCalls', { query: { state: 'succeeded' } })).items
    const inLog = unwrap(await root('listEndedCalls', { query: {} })).items
    return ended.length > 0 && inLog.length > 0
  })
  await record(agent, 'listCalls', { query: { state: 'succeeded', limit: 20 } })
  await record(agent, 'listRuns', { query: { limit: 20 } })
  await record(root, 'listEndedCalls', { query: { last: 20 } })
  await record(agent, 'decide', { body: { tool: 'send_report', args: { to: 'ops@example.com' } } })
  return run
}

async function approvals({ root, ada, agent }: Actors): Promise<void> {
  const call = await record(agent, 'proposeCallInNewRun', {
    body: {
      tool: 'send_report',
      args: { to: 'ops@example.com' },
      reason: 'the weekly report is due',
      run: { session: 'chat-42' },
    },
  })
  const id = call.approval?.id ?? ''
  await eventually('the approval is listed', async () =>
    unwrap(await root('listApprovals', { query: {} })).items.some((approval) => approval.id === id),
  )
  const params = { id }
  await record(ada, 'listApprovals', { query: { status: 'pending' } })
  await record(ada, 'listChanges', { query: { after: 0 } })
  const { digest } = await record(ada, 'readApproval', { params })
  await record(ada, 'readArguments', { params })
  await record(ada, 'previewAnswer', { params, body: { arguments: { to: 'all@example.com' } } })
  await record(root, 'revokeLinks', { params, query: { of: 'root' } })
  await record(ada, 'answerApproval', {
    params,
    body: { decision: 'approve', scope: 'session', reason: 'the weekly report', digest },
  })
  const { items } = await record(ada, 'listStanding', {})
  await record(ada, 'revokeStanding', { params: { id: items[0]?.id ?? '' } })
  await record(agent, 'resetSession', { params: { session: 'chat-42' }, body: {} })
  await record(agent, 'cancelCall', { params: { run: call.run, call: call.id } })
  await record(agent, 'readRun', { params: { run: call.run } })
  await record(agent, 'cancelRun', { params: { run: call.run } })
}

async function channels({ root }: Actors): Promise<void> {
  const keys = [`whsec_${Buffer.alloc(32, 7).toString('base64')}`]
  await record(root, 'putChannel', {
    params: { name: 'on-call' },
    body: { kind: 'webhook', url: 'https://hooks.example.com/countersign', keys, after_s: 60 },
  })
  await record(root, 'listChannels', {})
  await record(root, 'testChannel', { params: { name: 'on-call' } })
  const name = 'post'
  const addresses = { ada: 'ada@example.com' }
  const via = { provider: 'outbox' } as const
  unwrap(
    await root('putChannel', {
      params: { name },
      body: { kind: 'email', from: 'countersign@example.com', addresses, via },
    }),
  )
  unwrap(await root('testChannel', { params: { name } }))
  await record(root, 'listDeliveries', { params: { name: 'on-call' }, query: { state: 'failed' } })
  await record(root, 'retryDeliveries', { params: { name: 'on-call' } })
  await record(root, 'collectMessages', { params: { name }, body: { done: ['msg_1'], failed: [] } })
  await record(root, 'putDelegation', { body: { to: 'ada', for_s: 86_400 } })
  await record(root, 'listDelegations', {})
  await record(root, 'deleteDelegation', {})
  await record(root, 'deleteChannel', { params: { name: 'on-call' } })
}

async function policies({ root }: Actors): Promise<void> {
  const before = await record(root, 'readPolicies', {})
  const team = 'permit (principal in Group::"support", action == Action::"tool.execute", resource);'
  const set = { ...before.policies, team }
  const put = { policies: set, note: 'support may call tools', activate: false }
  const { version } = await record(root, 'putPolicies', { body: put })
  const request = { policies: { team }, note: put.note, activate: false }
  recorded['putPolicies'] = { ...recorded['putPolicies'], request }
  const params = { version: String(version) }
  await record(root, 'listPolicyVersions', { query: {} })
  await record(root, 'readPolicyVersion', { params })
  await record(root, 'diffPolicyVersions', { params, query: {} })
  await record(root, 'checkPolicies', { body: { policies: { team } } })
  await record(root, 'putPolicyShadow', { body: { version } })
  await record(root, 'readPolicyShadow', {})
  await record(root, 'rehearsePolicyVersion', { params, body: { days: 7 } })
  unwrap(await root('putPolicyShadow', { body: { version: null } }))
  await record(root, 'activatePolicyVersion', { params })
}

async function issuers({ root }: Actors): Promise<void> {
  const key = await newSigningKey('EdDSA', 'main')
  const idp = await TokenIssuer.open('https://idp.example.com', key)
  const { kid, alg, jwk } = key
  const params = { name: 'idp' }
  await record(root, 'putIssuer', {
    params,
    body: {
      issuer: idp.issuer,
      jwks: { keys: [{ kty: 'OKP', crv: 'Ed25519', x: jwk.x ?? '', kid, alg }] },
      algorithms: ['EdDSA'],
      rules: [{ claims: { sub: 'workload' }, agent: 'triage' }],
    },
  })
  await record(root, 'listIssuers', {})
  const { audiences } = await record(root, 'readIssuer', { params })
  await record(root, 'testToken', { body: { token: await idp.token(audiences[0] ?? '') } })
  await idp.close()
  const open = client(dev.url)
  await record(open, 'resourceMetadata', { query: { tenant: TENANT } })
  await record(open, 'mcpResourceMetadata', { query: { tenant: TENANT } })
  await record(root, 'deleteIssuer', { params })
}

async function upstreams({ root }: Actors): Promise<void> {
  const params = { name: 'docs' }
  await record(root, 'putUpstream', { params, body: { kind: 'http', url: upstream.url, look_ms: 60_000 } })
  await record(root, 'refreshUpstream', { params, body: {} })
  await record(root, 'listUpstreams', {})
  const ofTool = { name: 'docs', tool: 'docs_search' }
  const { tool } = await record(root, 'readUpstreamTool', { params: ofTool })
  await record(root, 'acceptUpstreamTool', {
    params: ofTool,
    body: { definition: tool.seen ?? '', capabilities: ['network'], sensitive: false },
  })
  await record(root, 'readUpstream', { params })
  await record(root, 'withdrawUpstreamTool', { params: ofTool })
  await record(root, 'removeUpstream', { params })
  await record(root, 'readUpstreamJournal', { query: { after: 0 } })
}

/** Requests of agents and of policy enforcement points, in protocols of others. */
async function protocols({ root, agent }: Actors): Promise<void> {
  const evaluation = {
    subject: { type: 'agent', id: 'triage' },
    action: { name: 'tools/call' },
    resource: { type: 'tool', id: 'send_report', properties: { arguments: { to: 'ops@example.com' } } },
  }
  const headers = { 'content-type': 'application/json' }
  await record(agent, 'evaluateAccess', { body: evaluation, headers })
  const { resource, ...defaults } = evaluation
  await record(agent, 'evaluateAccesses', { body: { ...defaults, evaluations: [{ resource }] }, headers })
  await record(client(dev.url), 'authzenConfiguration', {})
  const input_schema = { type: 'object', properties: { command: { type: 'string' } } }
  unwrap(
    await root('putTool', {
      params: { name: 'claude_code_bash' },
      body: {
        description: 'Bash of Claude Code.',
        input_schema,
        capabilities: [],
        executor: { kind: 'none' },
        egress: { mode: 'none', hosts: [] },
        workspace: 'call',
        limits: {},
      },
    }),
  )
  await record(agent, 'adviseClaudeCode', {
    body: {
      hook_event_name: 'PreToolUse',
      session_id: 'chat-42',
      tool_name: 'Bash',
      tool_input: { command: 'ls' },
    },
  })
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const body = Buffer.from(JSON.stringify(message))
  const speaks = {
    ...headers,
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2025-11-25',
  }
  await record(agent, 'mcp', { body, headers: speaks })
  await record(agent, 'mcpInSession', { params: { session: 'chat-42' }, body, headers: speaks })
  for (const name of ['mcp', 'mcpInSession'] as const)
    recorded[name] = { ...recorded[name], request: message }
  const withoutKey = await fetch(new URL('/mcp', dev.url), { method: 'POST', headers: speaks, body })
  recorded['mcp'] = { ...recorded['mcp'], refusal: tidy(await withoutKey.json()) }
}

async function agentDeliveries({ root, fixtures, pool }: Actors): Promise<void> {
  const params = { name: 'hooked' }
  const webhook = { url: `${receiver.url}/events`, events: ['call.ended' as const] }
  const { key } = unwrap(await root('putAgent', { params, body: { tools: ['*'], pool, webhook } }))
  await record(root, 'rotateAgentWebhook', { params })
  const hooked = fixtures.clientOf(key)
  const call = unwrap(
    await hooked('proposeCallInNewRun', { body: { tool: 'send_report', args: { to: 'ops@example.com' } } }),
  )
  unwrap(await hooked('cancelCall', { params: { run: call.run, call: call.id } }))
  await eventually('the event is delivered', async () =>
    unwrap(await root('listAgentDeliveries', { params, query: {} })).items.some(
      ({ state }) => state === 'sent',
    ),
  )
  await record(root, 'listAgentDeliveries', { params, query: {} })
}

async function secrets({ root }: Actors): Promise<void> {
  const params = { name: 'mail-key' }
  await record(root, 'putSecret', {
    params,
    body: { value: 'a secret of 24 characters', tools: ['send_report'] },
  })
  await record(root, 'listSecrets', {})
  await record(root, 'deleteSecret', { params })
}

async function skills({ root, ada }: Actors): Promise<void> {
  const publisher = new Publisher('acme-labs')
  await record(root, 'putPublisher', {
    params: { name: publisher.name },
    body: { keys: [publisher.signer.x, newSigner().x] },
  })
  await record(root, 'listPublishers', {})
  const code = await component()
  const id = 'greeter'
  const manifest = publisher.manifest(id)
  await record(root, 'trySkill', {
    body: {
      manifest,
      component: Buffer.from(code).toString('base64'),
      trials: [{ tool: manifest.tools[0]?.name ?? '', input: { name: 'Ada' } }],
    },
  })
  const ref = { id, version: '1.0.0' }
  const next = { id, version: '1.1.0' }
  await record(root, 'publishSkill', { body: publisher.pack(manifest, code), query: {} })
  unwrap(await root('publishSkill', { body: publisher.pack(publisher.manifest(id, next), code), query: {} }))
  await record(root, 'listSkills', { query: { id } })
  await record(root, 'readSkill', { params: ref })
  await record(root, 'readSkillPackage', { params: ref })
  await record(ada, 'enableSkill', { params: ref, body: why })
  unwrap(await ada('enableSkill', { params: next, body: why }))
  const { from, to } = await record(ada, 'readRollBack', { params: { id } })
  await record(ada, 'rollBackSkill', { params: { id }, body: { from, to, ...why } })
  await record(ada, 'disableSkill', { params: ref, body: why })
  await record(ada, 'revokeSkill', { params: next, body: why })
  await record(root, 'readSkillStorage', { params: { id }, query: {} })
  await record(root, 'clearSkillStorage', { params: { id } })
  await record(root, 'putDeniedParts', {
    body: { items: [{ pattern: 'left-pad@1.*', reason: 'it was taken over' }] },
  })
  await record(root, 'listDeniedParts', {})
  await record(root, 'readSkillJournal', { query: { after: 0 } })
  const { name } = publisher
  await record(root, 'revokePublisherKey', { params: { name, kid: publisher.signer.kid }, body: why })
  await record(root, 'deletePublisher', { params: { name } })
}

async function evidence({ root }: Actors): Promise<void> {
  const open = client(dev.url)
  await record(open, 'keys', { query: { tenant: TENANT } })
  await record(open, 'logCheckpoint', { params: { tenant: TENANT } })
  await record(open, 'logTile', { params: { tenant: TENANT, tile: '0/000.p/1' } })
  const [last] = unwrap(await root('listEndedCalls', { query: { last: 1 } })).items
  await record(open, 'logWitnesses', { params: { tenant: TENANT } })
  await record(open, 'logProof', { params: { tenant: TENANT, call: last?.call ?? '' } })
  await record(open, 'healthz', {})
  await record(open, 'readyz', {})
  for (const name of ['openapi', 'metrics', 'askMetrics', 'workerMetrics'] as const) recorded[name] = {}
}

async function endOfDay({ root }: Actors, peer: PeerWorker): Promise<void> {
  await record(root, 'createEnrolment', { body: { pool: 'default' } })
  await record(root, 'listWorkers', {})
  await record(root, 'readWorker', { params: { worker: peer.id } })
  await record(root, 'revokeWorker', { params: { worker: peer.id } })
  await record(root, 'deleteTool', { params: { name: 'send_report' } })
  await record(root, 'deleteAgent', { params: { name: 'triage' } })
  await record(root, 'deleteOperator', { params: { name: 'ada' } })
  unwrap(await governor('suspendTenant', { params: { tenant: TENANT }, body: why }))
  await record(governor, 'deleteTenant', { params: { tenant: TENANT }, body: { name: TENANT } })
}

test('a real edge accepts each request of the API description’s examples and answers as the example shows', {
  timeout: 180_000,
}, async () => {
  const all = await actors()
  const peer = await PeerWorker.enrol(dev.url, all.root, all.pool)
  await tools(all)
  await calls(all, peer)
  await approvals(all)
  await channels(all)
  await policies(all)
  await secrets(all)
  await exports(all)
  await issuers(all)
  await upstreams(all)
  await protocols(all)
  await agentDeliveries(all)
  await skills(all)
  await evidence(all)
  await retention(all)
  await tenants()
  await endOfDay(all, peer)
  expect(Object.keys(recorded).sort()).toEqual(described.map(([name]) => name).sort())
  const sorted = Object.fromEntries(described.map(([name]) => [name, recorded[name] ?? {}]))
  if (process.env['UPDATE_GOLDEN'] === '1') {
    writeFileSync(FILE, `${JSON.stringify(sorted, null, 1)}\n`)
    return
  }
  expect(shapeOf(sorted)).toEqual(shapeOf(EXAMPLES))
})

test('each example matches the schemas of its route', () => {
  const misfits = described.flatMap(([name, route]) => {
    const { request, response } = EXAMPLES[name] ?? {}
    const sent = route.body === undefined || route.raw ? undefined : route.body.safeParse(request).error
    const answered = route.media === undefined ? route.result.safeParse(response).error : undefined
    return [sent, answered].flatMap((error) => (error === undefined ? [] : [`${name}: ${error.message}`]))
  })
  expect(misfits).toEqual([])
})
