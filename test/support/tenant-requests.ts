// A request for each route that names an id, to compare the answers for ids of another tenant with
// those for ids that never existed.

import { sha256 } from '../../shared/bytes/json.ts'
import { seal } from '../../shared/evidence/dsse.ts'
import { STATEMENT_TYPE } from '../../shared/evidence/statement.ts'
import type { RouteName } from '../../shared/routes/all.ts'
import { toolSpec } from './fixtures.ts'
import type { Ids } from './tenants.ts'
import { newSigner } from './worker/peer-worker.ts'

const KEY = newSigner()
const why = { reason: 'a test' }
const evaluation = (tool: string, agent: string) => ({
  subject: { type: 'agent', id: agent },
  action: { name: 'tools/call' },
  resource: { type: 'tool', id: tool, properties: { arguments: {} } },
})

const mcpCall = (name: string, args: unknown, _meta: unknown) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args, _meta },
})

/**
 * Routes whose requests contain no id, or only affect the caller. Their paths have no parameters.
 */
export const NAMES_NOTHING: ReadonlySet<RouteName> = new Set([
  'createRun',
  'putPolicies',
  'checkPolicies',
  'trySkill',
  'publishSkill',
  'putDeniedParts',
  'putRetention',
  'prove',
  'rotateWorkerKey',
  'consoleSignIn',
  'consoleSignOut',
])

export const BODIES: Partial<Record<RouteName, (ids: Ids, caller: string) => unknown>> = {
  proposeCall: ({ tool, sha256 }) => ({ tool, args: {}, files: [{ path: 'a.txt', sha256 }] }),
  proposeCallInNewRun: ({ tool, session }) => ({ tool, args: {}, run: { session } }),
  mcp: ({ tool, run }) => mcpCall(tool, {}, { 'dev.countersign/run': run }),
  mcpInSession: ({ call }) => mcpCall('countersign_result', { call }, {}),
  decide: ({ tool, agent }, caller) => ({ tool, args: {}, ...(caller === 'operator' ? { agent } : {}) }),
  evaluateAccess: ({ tool, agent }) => evaluation(tool, agent),
  evaluateAccesses: ({ tool, agent }) => ({ evaluations: [evaluation(tool, agent)] }),
  adviseClaudeCode: ({ session }) => ({
    hook_event_name: 'PreToolUse',
    session_id: session,
    tool_name: 'Bash',
    tool_input: {},
  }),
  answerApproval: () => ({ decision: 'deny' }),
  previewAnswer: () => ({ arguments: {} }),
  putTool: () => toolSpec(),
  putAgent: ({ tool, operator }) => ({ tools: [tool], owners: [operator] }),
  putOperator: () => ({ roles: [] }),
  createEnrolment: ({ agent }) => ({ pool: agent }),
  putChannel: ({ operator }) => ({
    kind: 'webhook',
    url: 'https://hooks.example.com/x',
    keys: [`whsec_${Buffer.alloc(32, 7).toString('base64')}`],
    recipients: { operators: [operator] },
  }),
  putDelegation: ({ operator }) => ({ to: operator, for_s: 60 }),
  collectMessages: ({ approval }) => ({ done: [approval], failed: [] }),
  putPolicyShadow: ({ version }) => ({ version: Number(version) }),
  rehearsePolicyVersion: () => ({}),
  putUpstream: () => ({ kind: 'http', url: 'https://mcp.example.com/mcp' }),
  refreshUpstream: () => ({}),
  acceptUpstreamTool: ({ sha256 }) => ({ definition: sha256 }),
  putHold: () => why,
  liftHold: () => why,
  putExportTarget: ({ tenant }) => ({
    endpoint: 'https://127.0.0.1',
    region: 'auto',
    bucket: 'evidence',
    access_key_id: tenant,
    secret_access_key: 'of-the-asker',
  }),
  putSecret: ({ tool }) => ({ value: 'a value of the asker', tools: [tool] }),
  putIssuer: ({ agent, issuer }) => ({
    issuer: `https://${issuer}.example.com`,
    rules: [{ claims: { sub: 'x' }, agent }],
  }),
  testToken: ({ tenant }) => ({ token: `${tenant}.x.x` }),
  enableSkill: () => why,
  disableSkill: () => why,
  revokeSkill: () => why,
  rollBackSkill: () => ({ from: null, to: '1.0.0', ...why }),
  putPublisher: () => ({ keys: [newSigner().x] }), // a new key, because a key belongs to one publisher
  revokePublisherKey: () => why,
  resetSession: ({ agent }, caller) => (caller === 'operator' ? { agent } : {}),
  createTenant: ({ tenant }) => ({ name: tenant }),
  putQuota: () => ({}),
  suspendTenant: () => why,
  resumeTenant: () => why,
  deleteTenant: ({ tenant }) => ({ name: tenant }),
  claim: ({ run, call }) => ({ run, call, tiers: ['B', 'C'] }),
  output: ({ fence }) => ({ fence, stream: 'stdout', offset: 0, data: '' }),
  settle: ({ call, fence }) => ({
    fence,
    envelope: seal(STATEMENT_TYPE, { subject: [{ name: call, digest: { sha256: sha256(call) } }] }, KEY),
    output: { stdout: '', stderr: '' },
  }),
  heartbeat: ({ call, fence }) => ({ tiers: ['B', 'C'], running: [{ call, fence }] }),
}

/** Fields of console forms, without the token. */
export const FORMS: Partial<Record<RouteName, (ids: Ids) => Record<string, string>>> = {
  consoleAnswer: ({ call }) => ({ decision: 'deny', digest: sha256(call) }),
  consoleCancel: () => ({}),
  consoleAnswers: ({ approval }) => ({ id: approval, decision: 'deny' }),
  consoleTakeBack: ({ standing }) => ({ id: standing }),
  consoleEnable: () => why,
  consoleDisable: () => why,
  consoleRevoke: () => why,
  consoleRollBack: () => ({ from: '', to: '1.0.0', ...why }),
  submitApproval: () => ({ decision: 'deny', nonce: 'x' }),
}
