// Lines of the edge that decide: the lifecycle, policy, approvals, links, plans, and what is shown
// and hidden.

import type { Held } from './mutant.ts'

export const DECISIONS: readonly Held[] = [
  {
    area: 'lifecycle',
    file: 'edge/call/lifecycle.ts',
    tests: ['test/edge/call/table.test.ts', 'test/edge/call/random-walks.test.ts'],
    lines: [
      ['if (hasEnded(status)) {', 'if (false) {', 'A call that has ended is ended again in another way.'],
      [
        "if (event.decision.effect !== 'allow') return",
        'if (false) return',
        'A worker gets a call that the current policy denies.',
      ],
      [
        '|| proposal.plan !== null)',
        ')',
        'A call that Countersign should execute in a sandbox is left to the agent’s own program.',
      ],
      [
        "if (decision.effect !== 'allow') return ok(withdraw",
        'if (false) return ok(withdraw',
        'The agent’s program gets a yes for a call that the current policy denies.',
      ],
      ['status.worker !== event.worker ||', '', 'A worker settles the call of another one.'],
      [
        '|| status.fence !== event.fence)',
        ')',
        'A worker that had lost a call overwrites the result of the one after it.',
      ],
      [
        "if (now >= status.until) return refuse('not_claimable'",
        "if (false) return refuse('not_claimable'",
        'An old grant is claimed long after the approval was meant to be used.',
      ],
      [
        "if (answer.decision === 'deny') {",
        'if (false) {',
        'A no counts as a yes where policy would allow it.',
      ],
      [
        "if (decision.effect === 'deny') {",
        'if (false) {',
        'A yes runs a call that the current policy denies.',
      ],
      [
        'by === answer.by && since_ms === answer.since_ms && standing === undefined',
        'false',
        'One person gives two of the answers that policy wants from two.',
      ],
      [
        "if (permitted.effect === 'deny') return",
        'if (false) return',
        'Arguments changed by an approver run although policy denies them.',
      ],
      [
        'prompt, answers: [answer],',
        'prompt, answers: withAnswer(status.approval.answers, answer),',
        'A yes to one digest counts for other arguments.',
      ],
      [
        "expiresAt) return refuse('approval_expired', 'not enough people answered in time')\n  const { answer, edit",
        "expiresAt && false) return refuse('approval_expired', 'not enough people answered in time')\n  const { answer, edit",
        'An approval is answered, with other arguments, after it has expired.',
      ],
      [
        "expiresAt) return refuse('approval_expired', 'not enough people answered in time')\n  if (\n",
        "expiresAt && false) return refuse('approval_expired', 'not enough people answered in time')\n  if (\n",
        'An approval is answered after it has expired.',
      ],
      [
        "state === 'cancelled' && !status.cancelRequested",
        'false',
        'A worker ends a call as cancelled, though nobody asked to cancel it.',
      ],
      [
        'const fence = status.fence + 1',
        'const fence = Math.max(1, status.fence)',
        'Two executions of a call have the same fence, so the lost one may settle.',
      ],
    ],
  },
  {
    area: 'lifecycle',
    file: 'edge/call/endings.ts',
    tests: ['test/edge/call/table.test.ts', 'test/edge/call/random-walks.test.ts'],
    lines: [
      ['proposal.idempotent &&', '', 'A call that must run once runs twice when its worker is lost.'],
      ['&& !status.cancelRequested', '', 'A call that somebody cancelled runs again.'],
      [
        '&& status.fence < MAX_ATTEMPTS',
        '',
        'A call that kills its worker kills one worker after the other.',
      ],
      [
        "status.state === 'awaiting_approval' && now >= status.approval.expiresAt",
        "status.state === 'awaiting_approval' && false",
        'A question never expires.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/engine.ts',
    tests: ['test/edge/policy/differential.test.ts'],
    lines: [
      [
        "allowed: decision === 'allow' && errors.length === 0",
        "allowed: decision === 'allow'",
        'A forbid that errs is skipped, and the call it would forbid runs.',
      ],
      [
        'preparsedPolicySetId: held.value',
        "preparsedPolicySetId: 'slice 0'",
        'A call is decided by the policies of another agent.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/engine.ts',
    tests: ['test/edge/policy/validation.test.ts'],
    titled: 'a policy id that the edge uses itself',
    lines: [
      [
        'if (RESERVED.has(id))',
        'if (false)',
        'A policy signs its decisions with a name that the edge has for its own.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/decision/decide.ts',
    tests: ['test/edge/policy/policy-errors.test.ts'],
    titled: 'G13|D11',
    lines: [
      [
        "if (real.errors.length > 0) return ok(decided('deny', real))",
        '',
        'A policy that errs is overcome by an approval.',
      ],
      [
        "if (real.errors.length > 0) return decided('deny', real)",
        '',
        'A policy that errs on a call that waits is overcome by one more yes.',
      ],
    ],
  },
  {
    area: 'links',
    file: 'edge/approvals/link.ts',
    tests: ['test/edge/approvals/link-token.test.ts'],
    lines: [
      ['canonical({ use, tenant,', 'canonical({ tenant,', 'The nonce of a form passes for a link.'],
      ['canonical({ use, tenant,', 'canonical({ use,', 'A link of one tenant is valid for another one.'],
      [
        'tenant, approval, approver, approver_key',
        'tenant, approver, approver_key',
        'A link for one approval answers every other one.',
      ],
      [
        'tenant, approval, approver, approver_key',
        'tenant, approval, approver_key',
        'An approver answers in the name of another.',
      ],
      [
        'approver_key: approverKey, expiresAt',
        'expiresAt',
        'A link outlives the key of the operator whom it was made for.',
      ],
      [
        'approver_key: approverKey, expiresAt, digest }',
        'approver_key: approverKey, digest }',
        'A link is given a later expiry.',
      ],
      [
        'approver_key: approverKey, expiresAt, digest }',
        'approver_key: approverKey, expiresAt }',
        'A link that was shown for one digest approves another.',
      ],
      [
        'left.byteLength === right.byteLength && timingSafeEqual(left, right)',
        'left.byteLength === right.byteLength',
        'Any MAC of the right length opens a link.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/approvals/card.ts',
    tests: ['test/edge/approvals/card.test.ts'],
    lines: [
      [
        'readableJson(redaction.of(args))',
        'readableJson(args)',
        'Secrets in arguments are shown to every approver and channel.',
      ],
      [
        'readableJson(redaction.ofArgv(plan.executor.argv, args))',
        'readableJson(plan.executor.argv)',
        'Secrets in a command line are shown to every approver and channel.',
      ],
      [
        'agent_says: escapeConfusables(origin.reason)',
        'agent_says: origin.reason',
        'The agent’s reason reads backwards, or has invisible parts.',
      ],
    ],
  },
  {
    area: 'redaction',
    file: 'edge/decision/proposal.ts',
    tests: ['test/edge/run/reason.test.ts'],
    titled: 'V02 a secret in a reason',
    lines: [
      [
        'String(redaction.unmarked.of(text)), chars)',
        'text, chars)',
        'A secret in the agent’s reason is signed, journalled and shown to everybody who is asked.',
      ],
      [
        'toSignableText(String(redaction.unmarked.of(text)), chars)',
        'String(redaction.unmarked.of(text))',
        'A reason that its masks make longer than the limit has no valid grant, so its call can’t run.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/run/views.ts',
    tests: ['test/edge/run/reason.test.ts'],
    titled: 'calls with different reasons',
    lines: [
      [
        '...sameAsked(proposal.origin),',
        '',
        'A yes to the words that were shown is also given to calls with other words.',
      ],
    ],
  },
  {
    area: 'planning',
    file: 'edge/api/operators.ts',
    tests: ['test/edge/tools/contracts.test.ts'],
    titled: 'G07 a name with the prefix',
    lines: [
      [
        "if (fault !== undefined) return err(failure('conflict', fault))",
        'void fault',
        'A tool passes for one of Countersign’s own.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/platform/visible-text.ts',
    tests: ['test/edge/approvals/card.test.ts'],
    lines: [
      [
        'return escapeConfusables(fitting ?? shorten(whole, LIMITS.card_chars))',
        'return fitting ?? shorten(whole, LIMITS.card_chars)',
        'Text on a card reads backwards, or has invisible parts.',
      ],
      [
        "text.replaceAll('`', '\\\\u{60}')",
        'text',
        'An argument ends the quotes on a card and goes on in our words.',
      ],
      ['sha256(text).slice(0, 16)', "''", 'A shortened text on a card has no digest of the omitted part.'],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/decision/approval-context.ts',
    tests: ['test/edge/approvals/approval-context.test.ts'],
    lines: [
      [
        "decision === 'approve' && approvers.has(by)",
        "decision === 'approve'",
        'The yes of an operator who has lost the role still counts.',
      ],
      [
        "decision === 'approve' && approvers.has(by)",
        'approvers.has(by)',
        'A denial by an operator runs the call.',
      ],
      [
        'names.filter((name) => !owners.includes(name))',
        '[...names]',
        'The owner of an agent approves what it does where policy wants somebody else.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/approvals/assurance.ts',
    tests: ['test/edge/approvals/approval-context.test.ts'],
    lines: [
      [
        "OF_CHANNELS.get(channel) ?? 'link'",
        "OF_CHANNELS.get(channel) ?? 'key'",
        'A yes through a link counts as one by an operator’s own key.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/approvals/standing.ts',
    tests: ['test/edge/approvals/standing-key.test.ts'],
    lines: [
      [
        '{ actor: identityOfActor(origin.actor) }',
        '{}',
        'A yes to a call on behalf of one person covers calls on behalf of everybody.',
      ],
      [
        '    agent_since: agentSince,\n    device,',
        '    device,',
        'An agent that is made again under a name inherits what was approved for the one before.',
      ],
      [
        '    tool: digest,\n',
        '',
        'A standing yes covers a later version of the tool, which nobody has seen.',
      ],
      [
        '    policy_set: policySet,\n    reach: reachOf(plan),',
        '    reach: reachOf(plan),',
        'A standing yes outlives the policies under which it was given.',
      ],
      ["    program: executor.argv[0] ?? '',\n", '', 'A standing yes to one program covers every other.'],
      [
        'isEdgePlan(plan) || ((plan.files ?? []).length === 0 &&',
        'isEdgePlan(plan) || (',
        'A standing yes covers a call whose files, perhaps the program, nobody has looked at.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/tools/capabilities.ts',
    tests: ['test/edge/tools/capabilities.test.ts'],
    titled: 'capabilities that follow from the contract',
    lines: [
      [
        "...(secrets.length > 0 ? (['secrets_read'] as const) : []),",
        '',
        'A tool that receives secrets declares itself harmless and runs without an approval.',
      ],
    ],
  },
  {
    area: 'lifecycle',
    file: 'edge/decision/proposal.ts',
    tests: ['test/edge/run/idempotency.test.ts'],
    titled: 'G12 the key with another payload',
    lines: [
      [
        '|| argsSha256 !== digestOf(args) ||',
        '||',
        'An idempotency key that is used again, with other arguments, gives the result of another call.',
      ],
    ],
  },
  {
    area: 'forms',
    file: 'edge/http/form-origin.ts',
    tests: ['test/edge/http/form-origin.test.ts'],
    lines: [
      [
        "if (origin === 'null') return site === 'same-origin'",
        "if (origin === 'null') return true",
        'A page in a sandboxed frame sends an approval in an operator’s browser.',
      ],
      [
        "ours.protocol === 'https:'",
        'false',
        'An attacker who points a DNS name at the edge has their pages accepted as ours.',
      ],
      [
        'origin !== null && allowed.includes(origin) &&',
        'origin !== null &&',
        'A form on any page of the web approves a call.',
      ],
      ["(site === null || site === 'same-origin')", 'true', 'A page on a neighbouring host approves a call.'],
    ],
  },
  {
    area: 'planning',
    file: 'edge/tools/planner.ts',
    tests: ['test/edge/tools/planner.test.ts'],
    lines: [
      [
        'executor.allowed_executables !== undefined && !executor',
        'false && !executor',
        'An agent runs any program through a tool that allows a few.',
      ],
      [
        "if (item.includes('\\0'))",
        'if (false)',
        'An argument with NUL ends early for the program that reads it.',
      ],
      [
        "name.startsWith('.') ? host.endsWith(name) : host === name",
        'host.endsWith(name)',
        'A host whose name merely ends in a listed one is reached.',
      ],
      ['if (!ports.includes(wantedPort)) return false', '', 'Every port of a listed host is reached.'],
      [
        'if (!egress.hosts.some((pattern) => covers(pattern, read.data)))',
        'if (false)',
        'An agent names the hosts that its call reaches.',
      ],
      [
        "!read.success || read.data.startsWith('.')",
        '!read.success',
        'An agent asks for all hosts below a name where it may name single ones.',
      ],
      [
        "if (tier === 'B' && secretsOf(tool).length > 0) continue",
        '',
        'A secret is handed to a process that others of the worker’s user can read.',
      ],
      [
        "if (tier === 'B' && tool.workspace === 'run') continue",
        '',
        'The next call runs a file of this one as the worker’s user.',
      ],
      [
        "asked === 'strict' ? [] : [asked]",
        '[asked]',
        'A plan promises strict egress where nothing enforces it.',
      ],
      ['Math.min(...timeouts)', 'Math.max(...timeouts)', 'An agent asks for more time than the tool has.'],
      [
        "if (url.username !== '' || url.password !== '') return",
        'if (false) return',
        'A URL shows one host to people and is read as another.',
      ],
    ],
  },
  {
    area: 'redaction',
    file: 'edge/secrets/secret-patterns.ts',
    tests: ['test/edge/secrets/redaction-places.test.ts'],
    lines: [
      [
        '(?:-u|--user|--proxy-user)(?:',
        '(?:-u|--user)(?:',
        'The password of a proxy in a command line is shown on cards and in chats.',
      ],
    ],
  },
  {
    area: 'redaction',
    file: 'edge/secrets/secret-patterns.ts',
    tests: ['test/edge/secrets/redaction.test.ts'],
    titled: 'V02|a member named|by its shape|a secret inside a text',
    lines: [
      [
        '(?:(?:proxy-)?authorization|(?:set-)?cookie)',
        '(?:set-)?cookie',
        'A token in an authorization header is shown on cards and in chats.',
      ],
    ],
  },
  {
    area: 'redaction',
    file: 'edge/secrets/redaction.ts',
    tests: ['test/edge/secrets/redaction.test.ts', 'test/edge/secrets/redaction-places.test.ts'],
    titled: 'V02|a member named|by its shape|a secret inside a text|can’t be converted',
    lines: [
      ['.test(flag(before))', '.test(String(before))', 'An agent’s call breaks every page that shows it.'],
      [
        '/^(?:-u|--user|--proxy-user)$/',
        '/^(?:-u|--user)$/',
        'The password of a proxy in a list of arguments is shown on cards and in chats.',
      ],
      ['if (isSecret(name, value)) return', 'if (false) return', 'A value under a secret’s name is shown.'],
      [
        'this.#withoutEncoded(this.#withoutShapes(this.#withoutNamed(text)))',
        'this.#withoutShapes(this.#withoutNamed(text))',
        'A secret in base64 is shown.',
      ],
      [
        'this.#withoutEncoded(this.#withoutShapes(this.#withoutNamed(text)))',
        'this.#withoutEncoded(this.#withoutNamed(text))',
        'A key that is known by its shape is shown.',
      ],
      [
        "createHmac('sha256', key).update(tenant)",
        "createHmac('sha256', '').update(tenant)",
        'A reader of the mask of a PIN can find the PIN by trying.',
      ],
      [
        'return this.of(argv.map((item) => (secrets.has(item) ? this.#mark(item) : item)))',
        'return this.of(argv)',
        'A secret argument shows in the command line that is made of it.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/api/authzen.ts',
    tests: ['test/edge/decision/authzen.test.ts'],
    lines: [
      [
        "decision: effect === 'allow',",
        "decision: effect !== 'deny',",
        'A gateway lets a call through that waits for a human.',
      ],
      [
        '    decision: false,\n    context: { reason: message,',
        '    decision: true,\n    context: { reason: message,',
        'A gateway lets a call through that could not be evaluated.',
      ],
      [
        'const agent = subjectOf(caller, subject.id)',
        'const agent = ok(caller.directory.agents.get(subject.id) ?? caller.principal as AgentPrincipal)',
        'An agent learns what other agents may do.',
      ],
      [
        '{ ...byDefault, properties: undefined, ...own }',
        '{ ...byDefault, ...own }',
        'A call of one tool is evaluated with the arguments of another.',
      ],
    ],
  },
  {
    area: 'forms',
    file: 'edge/http/claude-code-hook.ts',
    tests: ['test/edge/http/claude-code-hook.test.ts'],
    lines: [
      [
        "hookAnswer('deny', reason)",
        "hookAnswer('allow', reason)",
        'Claude Code runs a tool after a malformed hook.',
      ],
    ],
  },
  {
    area: 'forms',
    file: 'edge/router.ts',
    tests: ['test/edge/http/claude-code-hook.test.ts'],
    titled: 'malformed',
    lines: [
      [
        "if (refusals === 'claude-code-hook') return hookRefusal(error)",
        '',
        'Claude Code takes a refusal for a failure of its hook and runs the tool.',
      ],
    ],
  },
  {
    area: 'lifecycle',
    file: 'edge/decision/proposal.ts',
    tests: ['test/edge/http/claude-code-hook.test.ts'],
    lines: [
      [
        "if ((tool.tool.executor.kind === 'none') !== (advice === true))",
        'if (false)',
        'A call waits for an executor that it does not have, and a hook gets a yes for a tool of Countersign.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/contradictions.ts',
    tests: ['test/shared/bundles/statement.test.ts'],
    lines: [
      [
        "if (state === 'released' && plan !== null) yield { at: '/state', what: 'ending' }",
        '',
        'Evidence says of a call that had a sandbox that nobody had to execute it.',
      ],
    ],
  },
]
