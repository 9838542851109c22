// Channels, delegations, policy sets and rehearsals.

import { POLICIES, Warnings } from '../../../../shared/routes/policies.ts'
import { REHEARSALS } from '../../../../shared/routes/rehearsals.ts'
import {
  Channel,
  ChannelSpec,
  Collected,
  Delegation,
  Delivery,
  Recipients,
} from '../../../../shared/wire/channels.ts'
import { CaseResult, SentCases } from '../../../../shared/wire/policy-cases.ts'
import { type Component, object, opaque, outlined, plain } from './component.ts'

const VERSION = {
  version: 'The number of the version.',
  digest: 'The digest of its texts.',
  note: 'What its author says about it.',
  author: 'The operator who stored it.',
  created_at_ms: 'When it was stored, in ms since 1970.',
  active: 'Whether it decides now.',
  shadow: 'Whether it shadows the active version.',
  policy_count: 'The number of its named texts.',
  activated_at_ms: 'When it was last activated, if ever.',
  activated_by: 'The operator who activated it.',
}

const SHADOW = {
  version: 'The version in shadow; null if there is none.',
  since_ms: 'Since when.',
  by: 'The operator who made it the shadow.',
  calls: 'Calls that were proposed since then and have ended.',
  differ: 'Those that it would have decided differently.',
  counts: 'Calls by both decisions.',
  latest: 'The latest differences.',
}

export const CHANNELS_AND_POLICIES: Readonly<Record<string, Component>> = {
  Recipients: object(
    Recipients,
    'Each gets a message with a personal link. Without them, one message has no link that can answer.',
    {
      roles: 'Operators who have one of these roles.',
      operators: 'These operators.',
    },
  ),
  ChannelSpec: plain(
    ChannelSpec,
    'The settings of a channel, by its `kind`. They are replaced as a whole: secrets can’t be read back.',
  ),
  ChannelSettings: opaque(
    Channel.shape.channel,
    'As `ChannelSpec`, without secrets. `to` is its destination.',
  ),
  Channel: object(Channel, 'A channel without its secrets.', {
    name: '',
    put_by: 'The operator who stored it.',
    put_at_ms: 'When it was stored.',
    channel: '',
  }),
  Delivery: object(Delivery, 'A message of a channel, and whether it was delivered.', {
    id: 'The same for each attempt: the `webhook-id`.',
    approval: 'The approval that it is about.',
    notice: 'Which notice it is, where it is about no approval.',
    kind: 'Whether it asks, reports the end, or is a notice.',
    recipient: 'The operator that it is for.',
    instead_of: 'The absent operator, if the recipient is their delegate.',
    state: '`due`: it waits. `failed`: given up, for the reason in `why`. `dropped`: it no longer mattered.',
    tries: 'The number of attempts.',
    next_at_ms: 'When the next attempt is.',
    changed_at_ms: 'When its state last changed.',
    why: 'Why it was not delivered.',
  }),
  Delegation: object(Delegation, 'An absence: who is asked in addition. It grants no permission.', {
    operator: 'The operator who is away.',
    to: 'Their delegate.',
    until_ms: 'When it ends.',
    put_at_ms: 'When it was set.',
  }),
  Collected: object(Collected, 'A mail that waited in an outbox.', {
    id: 'Report this id when it has been delivered.',
    message: 'A complete RFC 5322 message, with its recipient’s link.',
  }),
  PolicyWarning: object(Warnings.element, 'A probable mistake in a policy set.', {
    at: 'The name of the text, line and column.',
    message: 'What is probably wrong.',
    hint: 'What was probably meant.',
  }),
  PolicyVersion: object(
    POLICIES.listPolicyVersions.result.shape.items.element,
    'A version of the policy set.',
    VERSION,
  ),
  ActivePolicies: object(POLICIES.readPolicies.result, 'The active policy set, and the floor above it.', {
    ...VERSION,
    policies: 'Its texts in Cedar, by name.',
    floor: 'The texts of the floor, which no tenant can change.',
    policy_set: 'The digest of both together, which decisions name.',
    previous: 'The version that was active before.',
  }),
  CheckedPolicyVersion: object(POLICIES.putPolicies.result, 'A version, with its warnings.', {
    ...VERSION,
    warnings: 'Probable mistakes that don’t prevent storing.',
  }),
  StoredPolicies: outlined(
    object(POLICIES.readPolicyVersion.result, 'A version with its texts.', {
      ...VERSION,
      policies: 'Its texts in Cedar, by name.',
      activations: 'When it was activated and by whom, latest first.',
    }),
    'activations',
  ),
  PolicyChange: object(POLICIES.diffPolicyVersions.result.shape.changes.element, 'A policy that differs.', {
    policy: 'The policy’s `@id`, or its text’s name and its number there.',
    in: 'The name of its text.',
    change: 'Whether it is new, gone, or has changed.',
    before: 'What it was.',
    after: 'What it is.',
  }),
  PolicyCases: opaque(
    SentCases,
    '`cases`: calls and their expected decisions; and the `tools`, `agents`, `operators` and `sets` that they need.',
  ),
  CaseResult: outlined(
    object(CaseResult, 'The result of one case.', {
      description: 'The case.',
      passed: 'Whether the decision is as expected.',
      differs: 'The fields that differ.',
      expected: 'The expected decision.',
      got: 'The decision.',
    }),
    'expected',
    'got',
  ),
  Rehearsal: outlined(
    object(REHEARSALS.rehearsePolicyVersion.result, 'What a version would have decided about past calls.', {
      version: 'The version.',
      against: 'The active version, whose decisions are `now`.',
      since_ms: 'The calls ended since this time.',
      looked_at: 'The number of calls.',
      complete: 'Whether these were all calls since then.',
      out_of_time: 'Whether it ran out of time first.',
      summary: 'The number of changed decisions of each kind.',
      flips: 'Changed decisions, latest first; `summary` counts all.',
      unrehearsable: 'Calls that could not be decided again, and why.',
      approvals: 'Calls that would ask humans: under the active set, and under this version.',
      approvals_per_day: 'The same per day; null if the calls span less than a day.',
    }),
    'summary',
    'flips',
    'unrehearsable',
    'approvals',
    'approvals_per_day',
  ),
  PolicyShadow: outlined(
    object(REHEARSALS.readPolicyShadow.result, 'The version in shadow, and how it would decide.', SHADOW),
    'counts',
    'latest',
  ),
  CheckedShadow: outlined(
    object(REHEARSALS.putPolicyShadow.result, 'The version in shadow, with its warnings.', {
      ...SHADOW,
      warnings: 'Probable mistakes in it.',
    }),
    'counts',
    'latest',
  ),
}
