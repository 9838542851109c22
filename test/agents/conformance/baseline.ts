// The findings that we expect of the conformance suite: every scenario passes except these, each
// with the checks that don't and the reason. A scenario that passes although it is listed, and one
// that did not run, fail the test.

import type { Revision } from './suite.ts'

export type Target = 'own tools' | 'protected server'

const PROMPTS = 'Countersign offers tools: its list of prompts is empty.'
const RESOURCES =
  'Countersign offers tools: its list of resources is empty, so there are none to read or watch.'
const COMPLETION = 'There are no prompts and no resource templates whose arguments could be completed.'
const ASKS =
  'No tool asks the agent’s side for input, sampling or roots: people who approve are not its users (0096).'
const LOGS = 'Log messages are deprecated (SEP-2577); the output of a running call is sent as progress.'
const HEADERS =
  'No tool wants arguments in headers, where proxies log them; the keyword is refused or taken out.'
const DIAGNOSTIC =
  'Nothing needs a capability of the client: a client without tasks is held or gets a pending result.'
const LISTENERS =
  'The suite waits 1.5 s for a change that its own tool makes; a listener gets one within 5 s.'
const ANCHOR = '`$anchor` is not among the keywords of a tool’s schema; references name `#/$defs/…`.'
const FAILED = 'A call that breaks is a result with `isError`, which models see; they see no JSON-RPC errors.'

type Line = {
  readonly scenario: string
  readonly checks: readonly string[]
  readonly why: string
  /** By default in both revisions, for both targets. */
  readonly revision?: Revision
  readonly target?: Target
}

/** A scenario whose only check has its name. */
const whole = (scenario: string, why: string, revision?: Revision): Line => ({
  scenario,
  checks: [scenario],
  why,
  ...(revision && { revision }),
})
const modern = (scenario: string, checks: readonly string[], why: string, target?: Target): Line => ({
  scenario,
  checks,
  why,
  revision: '2026-07-28',
  ...(target && { target }),
})
const legacy = (scenario: string, checks: readonly string[], why: string): Line => ({
  scenario,
  checks,
  why,
  revision: '2025-11-25',
})

const BASELINE: readonly Line[] = [
  whole('prompts-get-simple', PROMPTS),
  whole('prompts-get-with-args', PROMPTS),
  whole('prompts-get-embedded-resource', PROMPTS),
  whole('prompts-get-with-image', PROMPTS),
  whole('resources-read-text', RESOURCES),
  whole('resources-read-binary', RESOURCES),
  whole('resources-templates-read', RESOURCES),
  whole('resources-subscribe', RESOURCES, '2025-11-25'),
  whole('resources-unsubscribe', RESOURCES, '2025-11-25'),
  whole('completion-complete', COMPLETION),
  whole('tools-call-with-logging', LOGS, '2025-11-25'),
  whole('tools-call-sampling', ASKS, '2025-11-25'),
  whole('tools-call-elicitation', ASKS, '2025-11-25'),
  legacy('elicitation-sep1034-defaults', ['elicitation-sep1034-general'], ASKS),
  legacy('elicitation-sep1330-enums', ['elicitation-sep1330-general'], ASKS),

  modern('input-required-result-basic-elicitation', ['sep-2322-elicitation-incomplete'], ASKS),
  modern('input-required-result-basic-sampling', ['sep-2322-sampling-incomplete'], ASKS),
  modern('input-required-result-basic-list-roots', ['sep-2322-list-roots-incomplete'], ASKS),
  modern('input-required-result-request-state', ['sep-2322-request-state-incomplete'], ASKS),
  modern('input-required-result-multiple-input-requests', ['sep-2322-multiple-inputs-incomplete'], ASKS),
  modern('input-required-result-multi-round', ['sep-2322-multi-round-r1'], ASKS),
  modern('input-required-result-missing-input-response', ['sep-2322-missing-response-rerequests'], ASKS),
  modern('input-required-result-non-tool-request', ['sep-2322-non-tool-incomplete'], PROMPTS),
  modern('input-required-result-result-type', ['sep-2322-result-type-included'], ASKS),
  modern('input-required-result-tampered-state', ['sep-2322-reject-tampered-state'], ASKS),
  modern('input-required-result-capability-check', ['sep-2322-respect-client-capabilities'], ASKS),
  modern(
    'input-required-result-ignore-extra-params',
    ['sep-2322-ignore-unexpected-params'],
    ASKS,
    'own tools',
  ),
  modern(
    'tasks-mrtr-input',
    [
      'sep-2663-tasks-get-status-input-required',
      'tasks-mrtr-partial-fulfillment',
      'tasks-mrtr-tasks-update-resumes',
    ],
    ASKS,
  ),
  modern('tasks-mrtr-composition', ['sep-2663-mrtr-synchronous-before-task-creation'], ASKS),

  modern('tasks-lifecycle', ['sep-2663-tasks-get-status-failed'], FAILED),
  modern(
    'tasks-required-task-error',
    ['sep-2663-server-returns-missing-capability-when-required'],
    DIAGNOSTIC,
  ),
  modern(
    'server-stateless',
    ['sep-2575-missing-capability-http-400', 'sep-2575-server-rejects-undeclared-capability'],
    DIAGNOSTIC,
  ),
  modern('server-stateless', ['sep-2575-server-sends-tools-list-changed-on-subscription'], LISTENERS),
  modern(
    'http-custom-header-server-validation',
    [
      'sep-2243-server-decode-base64',
      'sep-2243-server-no-xmcp-tool',
      'sep-2243-server-reject-invalid-param-chars',
      'sep-2243-server-reject-param-mismatch',
      'sep-2243-server-validate-param-match',
    ],
    HEADERS,
  ),
  modern('json-schema-2020-12', ['sep-2106-anchor-keyword-preserved'], ANCHOR),
]

const BOTH = [
  'completion-complete',
  'dns-rebinding-protection',
  'json-schema-2020-12',
  'prompts-get-embedded-resource',
  'prompts-get-simple',
  'prompts-get-with-args',
  'prompts-get-with-image',
  'prompts-list',
  'resources-list',
  'resources-read-binary',
  'resources-read-text',
  'resources-templates-read',
  'server-sse-multiple-streams',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-error',
  'tools-call-image',
  'tools-call-mixed-content',
  'tools-call-simple-text',
  'tools-call-with-progress',
  'tools-list',
]
const SCENARIOS: Readonly<Record<Revision, readonly string[]>> = {
  '2025-11-25': [
    ...BOTH,
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    'logging-set-level',
    'ping',
    'resources-subscribe',
    'resources-unsubscribe',
    'server-initialize',
    'server-session-lifecycle',
    'server-sse-polling',
    'tools-call-elicitation',
    'tools-call-sampling',
    'tools-call-with-logging',
  ],
  '2026-07-28': [
    ...BOTH,
    'caching',
    'http-custom-header-server-validation',
    'http-header-validation',
    'input-required-result-basic-elicitation',
    'input-required-result-basic-list-roots',
    'input-required-result-basic-sampling',
    'input-required-result-capability-check',
    'input-required-result-ignore-extra-params',
    'input-required-result-missing-input-response',
    'input-required-result-multi-round',
    'input-required-result-multiple-input-requests',
    'input-required-result-non-tool-request',
    'input-required-result-request-state',
    'input-required-result-result-type',
    'input-required-result-tampered-state',
    'input-required-result-unsupported-methods',
    'input-required-result-validate-input',
    'sep-2164-resource-not-found',
    'server-stateless',
    'tasks-capability-negotiation',
    'tasks-dispatch-and-envelope',
    'tasks-lifecycle',
    'tasks-mrtr-composition',
    'tasks-mrtr-input',
    'tasks-request-headers',
    'tasks-request-state-removal',
    'tasks-required-task-error',
    'tasks-status-notifications',
    'tasks-wire-fields',
  ],
}

/** For each scenario that has to run, the checks that are expected not to pass. */
export function expectedOf(revision: Revision, target: Target): Record<string, string[]> {
  const lines = BASELINE.filter(
    (line) => (line.revision ?? revision) === revision && (line.target ?? target) === target,
  )
  return Object.fromEntries(
    SCENARIOS[revision].map((scenario) => [
      scenario,
      lines.flatMap((line) => (line.scenario === scenario ? line.checks : [])).sort(),
    ]),
  )
}
