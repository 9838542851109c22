// Creates tenants for a test, as the operator of the installation, each with one of everything that
// a tenant can hold.

import type { DevInfo } from '../../infra/seed.ts'
import { sha256 } from '../../shared/bytes/json.ts'
import { approvalId, callId, newStandingId, newWorkerId, ulid } from '../../shared/ids.ts'
import type { RouteName } from '../../shared/routes/all.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import { bearer, type Client, client } from '../../shared/routes/client.ts'
import type { Route } from '../../shared/routes/route.ts'
import type { QuotaChange } from '../../shared/wire/tenants.ts'
import { ConsoleSession } from './browser/console-session.ts'
import { Fixtures, unwrap } from './fixtures.ts'
import { component, Publisher } from './skills/skill.ts'
import { grantOf, newSigner, PeerWorker } from './worker/peer-worker.ts'

export const installation = (dev: DevInfo): Client => client(dev.url, bearer(dev.installation_key))

/** Creates a tenant and returns the fixtures of its first operator. */
export async function newTenant(dev: DevInfo, name: string, quota: QuotaChange = {}): Promise<Fixtures> {
  const { key } = unwrap(await installation(dev)('createTenant', { body: { name, quota } }))
  return new Fixtures(name, { ...dev, tenant: name, operator_key: key })
}

/**
 * The ids that requests name. Another tenant’s ids must answer exactly like ids that never existed.
 */
export type Ids = {
  readonly tenant: string
  readonly run: string
  readonly call: string
  readonly approval: string
  readonly standing: string
  readonly skill: string
  readonly tool: string
  readonly agent: string
  readonly operator: string
  readonly channel: string
  readonly secret: string
  readonly issuer: string
  readonly upstream: string
  readonly publisher: string
  readonly kid: string
  readonly worker: string
  readonly sha256: string
  readonly session: string
  readonly version: string
  readonly token: string
  readonly fence: number
}

/** Ids of the right form that never existed. `like`: copied where the form leaves no choice. */
export function unknownIds(like: Ids): Ids {
  const run = `run_${ulid(Date.now())}`
  const name = `never-${ulid(Date.now()).toLowerCase()}`
  const approval = approvalId(run, 1)
  return {
    ...like,
    tenant: name,
    run,
    call: callId(run, 1),
    approval,
    standing: newStandingId(Date.now()),
    skill: name,
    tool: name,
    agent: name,
    operator: name,
    channel: name,
    secret: name,
    issuer: name,
    upstream: `never-${ulid(Date.now()).slice(-12).toLowerCase()}`, // a shorter pattern
    publisher: name,
    kid: newSigner().kid,
    worker: newWorkerId(Date.now()),
    sha256: sha256(run),
    session: name,
    version: '999',
    token: like.token.split('.').with(1, approval).join('.'),
  }
}

/** The callers of a tenant, each with its credentials. */
export type Tenant = {
  readonly fixtures: Fixtures
  readonly ids: Ids
  readonly agent: { readonly name: string; readonly key: string; readonly client: Client }
  readonly peer: PeerWorker
  readonly console: ConsoleSession
}

/**
 * Creates a tenant with a finished call with a file, a pending approval with a link, a standing
 * answer, a skill, a channel, a secret, an upstream and a second policy set.
 */
export async function newFurnishedTenant(dev: DevInfo, name: string): Promise<Tenant> {
  const fixtures = await newTenant(dev, name)
  const { root } = fixtures
  const [agent, approver] = [await fixtures.agent(), await fixtures.operator(['admin'])]
  const peer = await PeerWorker.enrol(dev.url, root, fixtures.pool)
  const tool = await fixtures.tool({ input_files: true, executor: { tiers: ['B', 'C'] } })
  const sensitive = await fixtures.tool({ capabilities: ['network'] })
  const session = `${name}-session`

  const bytes = Buffer.from(`of ${name} alone`)
  const { id: run } = unwrap(await agent.client('createRun', { body: { session } }))
  unwrap(await agent.client('putFile', { params: { run, sha256: sha256(bytes) }, body: bytes }))
  const files = [{ path: 'a.txt', sha256: sha256(bytes) }]
  const call = unwrap(await agent.client('proposeCall', { params: { run }, body: { tool, args: {}, files } }))
  const claim = unwrap(await peer.claim(call.id))
  unwrap(await peer.settle(claim))

  const standing = await fixtures.proposeForApproval(agent.client, sensitive)
  unwrap(
    await root('answerApproval', {
      params: { id: standing.approval.id },
      body: { decision: 'approve', scope: 'session' },
    }),
  )
  const asked = await fixtures.proposeForApproval(agent.client, sensitive, { text: `of ${name}` })
  const link = await fixtures.link(approver.client, asked.approval.id)

  const publisher = await Publisher.listed(`${name}-publisher`, root)
  const skill = `${name}-skill`
  unwrap(await root('publishSkill', { body: publisher.pack(publisher.manifest(skill), await component()) }))
  unwrap(
    await approver.client('enableSkill', {
      params: { id: skill, version: '1.0.0' },
      body: { reason: 'a test' },
    }),
  )
  const channel = `${name}-channel`
  const keys = [`whsec_${Buffer.alloc(32, 7).toString('base64')}`]
  const quiet = { kind: 'webhook' as const, url: 'https://hooks.example.com/x', keys, after_s: 3_600 }
  unwrap(await root('putChannel', { params: { name: channel }, body: quiet }))
  const secret = `${name}-secret`
  unwrap(
    await root('putSecret', { params: { name: secret }, body: { value: `value of ${name}`, tools: [tool] } }),
  )
  const issuer = `${name}-issuer`
  const rules = [{ claims: { sub: name }, agent: agent.name }]
  unwrap(
    await root('putIssuer', { params: { name: issuer }, body: { issuer: `https://${name}.example`, rules } }),
  )
  const upstream = `${name}-up`
  const remote = { kind: 'http' as const, url: 'https://mcp.example.com/mcp' }
  unwrap(await root('putUpstream', { params: { name: upstream }, body: remote }))
  const { policies } = unwrap(await root('readPolicies', {}))
  const { version } = unwrap(
    await root('putPolicies', { body: { policies: { ...policies, more: forbidNothing(name) }, note: name } }),
  )

  const [first] = unwrap(await root('listStanding', {})).items
  return {
    fixtures,
    agent,
    peer,
    console: await ConsoleSession.open(dev.url, fixtures.rootKey),
    ids: {
      tenant: name,
      run,
      call: call.id,
      approval: asked.approval.id,
      standing: first?.id ?? '',
      skill,
      tool,
      agent: agent.name,
      operator: approver.name,
      channel,
      secret,
      issuer,
      upstream,
      publisher: publisher.name,
      kid: publisher.signer.kid,
      worker: peer.id,
      sha256: sha256(bytes),
      session,
      version: `${version}`,
      token: link.split('/approve/')[1] ?? '',
      fence: grantOf(claim.grant).fence,
    },
  }
}

const forbidNothing = (name: string): string =>
  `@id("${name}") forbid (principal, action in Action::"tool.execute", resource) when { context.tool_name == "${name}" };`

/**
 * Finds the id for a path parameter: by its name, or for `{id}` and `{name}` by the folder before
 * them.
 */
const BY_FOLDER: Readonly<Record<string, keyof Ids>> = {
  approvals: 'approval',
  standing: 'standing',
  skills: 'skill',
  calls: 'call',
  tools: 'tool',
  agents: 'agent',
  operators: 'operator',
  channels: 'channel',
  secrets: 'secret',
  issuers: 'issuer',
  upstreams: 'upstream',
  publishers: 'publisher',
}

export function pathOf(name: RouteName, ids: Ids): string {
  const route: Route = ROUTES[name]
  return route.path
    .replace(
      /([\w-]+)\/\{(\w+)\}/g,
      (_, folder: string, param: string) => `${folder}/${idOf(folder, param, ids)}`,
    )
    .replace(/\{part\}/, '0')
    .replace(/\{version\}/, '1.0.0')
}

function idOf(folder: string, param: string, ids: Ids): string {
  if (param === 'id' || param === 'name') {
    const kind = BY_FOLDER[folder]
    if (kind === undefined) throw new Error(`\`${folder}/{${param}}\`: add the folder to BY_FOLDER`)
    return String(ids[kind])
  }
  if (param === 'subject') return ids.run // of a legal hold
  if (param in ids) return String(ids[param as keyof Ids]) // just looked up
  throw new Error(`\`{${param}}\` names no id of a test tenant`)
}
