// The benchmark’s worker inside workerd, bundled like the edge: makes the edge’s own decision on a
// call, over a directory like that of a tenant’s object, as many times as a request asks for. It
// reports no times, because workerd’s clock stands still while code runs.

import { preparsePolicySet, statefulIsAuthorized } from '@cedar-policy/cedar-wasm/web'
import { decide, type Situation } from '../../../edge/decision/decide.ts'
import { directoryFrom } from '../../../edge/directory/directory.ts'
import type { LoadedDirectory } from '../../../edge/directory/loaded-directory.ts'
import { checkPolicies } from '../../../edge/policy/check.ts'
import { about, compile } from '../../../edge/policy/engine.ts'
import { DEFAULT_BUDGET } from '../../../shared/limits.ts'
import type { Tool } from '../../../shared/wire/tools.ts'

const TOOL: Tool = {
  name: 'bench_pay',
  version: 1,
  digest: 'f'.repeat(64),
  description: 'Pays.',
  input_schema: {
    type: 'object',
    properties: { amount: { type: 'integer' }, to: { type: 'string' }, note: { type: 'string' } },
    required: ['amount', 'to'],
  },
  capabilities: [],
  executor: { kind: 'process', tiers: ['C'], argv: ['pay', '{to}', '{amount}'], stdin: 'none' },
  egress: { mode: 'strict', hosts: [] },
  workspace: 'call',
  limits: {},
}

const OTHERS = Array.from({ length: 99 }, (_, i) => `other.${i}`)
const TOOLS = [TOOL, ...OTHERS.map((name) => ({ ...TOOL, name }))]

/** Ten policies that mention the tool; the rest mention other tools. */
const MENTION_IT = 10
const CONDITIONS = [
  (i: number) => `context.args.amount > ${10 ** 12 + i}`,
  (i: number) => `context.args.to == "account-${i}"`,
  (i: number) => `context.args has note && context.args.note like "*rule ${i}*"`,
  (i: number) => `context.plan.tier != "C" && context.args.amount > ${i}`,
]
const rule = (i: number): string => {
  const tool = i < MENTION_IT ? TOOL.name : OTHERS[i % OTHERS.length]
  const notes = `@id("rule ${i}") @reason("as rule ${i} says")`
  if (i === 0)
    return `${notes} permit (principal is Agent, action == Action::"tool.execute/${tool}", resource) when { context.args.amount >= 0 };`
  return `${notes} forbid (principal, action == Action::"tool.execute/${tool}", resource) when { ${CONDITIONS[i % CONDITIONS.length]?.(i)} };`
}
/** Without approvers a denial would not be evaluated a second time. */
const APPROVERS =
  '@id("approvers") permit (principal is Operator, action == Action::"approval.decide", resource);'
const rules = (count: number): string[] => Array.from({ length: count }, (_, i) => rule(i))

const COMMON = Array.from(
  { length: 100 },
  (_, i) =>
    `@id("common ${i}") forbid (principal, action in Action::"tool.execute", resource) when { context.run_id == "none ${i}" };`,
)
const AGENTS = Array.from({ length: 98 }, (_, i) => `agent-${i}`)
const PERSONAL = AGENTS.map(
  (name) =>
    `@id("of ${name}") forbid (principal == Agent::"${name}", action in Action::"tool.execute", resource) when { context.session_id == "none" };`,
)

function directoryWith(
  tenant: string,
  policies: readonly string[],
  names: readonly string[] = ['bench'],
): LoadedDirectory {
  const keys = {
    markKey: Buffer.alloc(32),
    vaultKeys: [Buffer.alloc(32)],
    publicUrl: 'https://cs.example.com',
  }
  return directoryFrom(keys, tenant, {
    tenant,
    version: 1,
    runsShareSince: 0,
    agents: names.map((name, i) => ({
      name,
      keyHash: String(i).padStart(64, '0'),
      spec: { tools: [TOOL.name], groups: ['clerks'] },
      createdAt: 0,
    })),
    operators: [{ name: 'approver', keyHash: 'f'.repeat(64), spec: { roles: ['approver'] }, createdAt: 0 }],
    tools: TOOLS,
    shadow: null,
    policies: { version: 1, texts: { rules: policies.join('\n'), APPROVERS } },
    workers: [],
    secrets: [],
    state: 'active',
    formerSecrets: [],
    skills: [],
    publishers: [],
    issuers: [],
    upstreams: [],
  })
}

const budget = { ...DEFAULT_BUDGET }

function situationIn(directory: LoadedDirectory, amount: number, name = 'bench'): Situation {
  const [agent, tool] = [directory.agents.get(name), directory.tools.get(TOOL.name)]
  if (agent === undefined || tool === undefined) throw new Error('the directory lacks what it was given')
  const run = { id: 'run_bench', session: 'bench', channel: null, device: null, budget }
  return {
    agent,
    tool,
    args: { amount, to: 'account-x' },
    files: [],
    run,
    answers: [],
    folderMetSecret: false,
    actor: null,
    used: null,
    now: 0,
  }
}

function decided(directory: LoadedDirectory, amount: number, name?: string): string {
  const answer = decide(directory, situationIn(directory, amount, name))
  return answer.ok ? answer.value.decision.effect : answer.error.code
}

/**
 * Only the engine: the slice and the context of such a decision, prepared except for the amount.
 */
function bareEngine(directory: LoadedDirectory): (amount: number) => string {
  const { agent, tool } = situationIn(directory, 0)
  const matter = about(directory.policies, {
    principal: { type: 'Agent', id: agent.name },
    action: `tool.execute/${TOOL.name}`,
    resource: { type: 'Tool', id: TOOL.name },
    entities: [...agent.entities, tool.action],
  })
  const plan = { tier: 'C', egress_mode: 'strict' }
  const flags = {
    is_allowlisted_tool: true,
    is_allowed_channel: true,
    is_sensitive_action: false,
    allow_sensitive_tools: false,
  }
  const context = (amount: number) => ({ ...flags, plan, args: { amount, to: 'account-x' } })
  const { subject, slice } = matter
  preparsePolicySet('bare', { staticPolicies: slice.texts })
  const action = { type: 'Action', id: subject.action }
  const fixed = {
    principal: subject.principal,
    action,
    resource: subject.resource,
    entities: [...subject.entities],
  }
  return (amount) => {
    const answer = statefulIsAuthorized({ ...fixed, context: context(amount), preparsedPolicySetId: 'bare' })
    return answer.type === 'success' ? answer.response.decision : answer.type
  }
}

const ten = directoryWith('ten', rules(10))
const thousand = directoryWith('thousand', rules(1_000))
const many = directoryWith('many', [rule(0), ...COMMON, ...PERSONAL], AGENTS)
const engine = bareEngine(ten)
let next = 0
let sets = 0

/** Each returns its result, so that the bench can check that it measured the intended case. */
const WORK: Readonly<Record<string, () => string>> = {
  engine: () => engine(next++),
  of_10: () => decided(ten, next++),
  of_1000: () => decided(thousand, next++),
  of_98_agents: () => decided(many, next++, AGENTS[next % AGENTS.length]),
  denied_of_10: () => decided(ten, -1 - next++),
  asked_before: () => decided(thousand, 7),
  /** Checked against the schemas of all tools, as when a set is put. */
  checked_1000: () =>
    checkPolicies({ rules: rules(1_000).join('\n'), APPROVERS }, TOOLS).ok ? 'holds' : 'refused',
  /** A set that this isolate has not compiled. */
  set_of_1000: () =>
    compile({
      rules: rules(1_000).join('\n'),
      fresh: `permit (principal, action, resource) when { context.n == ${sets++} };`,
    }).ok
      ? 'made'
      : 'refused',
}

export default {
  fetch(request: Request): Response {
    const { pathname, searchParams } = new URL(request.url)
    const work = WORK[pathname.slice(1)]
    let last = ''
    for (let i = Number(searchParams.get('times')); i > 0; i--) last = work?.() ?? 'unknown'
    return new Response(`${last} after ${searchParams.get('times')}`)
  },
}
