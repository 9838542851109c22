// Approvals and standing answers.

import { ApprovalId } from '../../../../shared/fields.ts'
import { STANDING } from '../../../../shared/routes/standing.ts'
import {
  Answer,
  Approval,
  ArgumentChange,
  Editable,
  ListedApproval,
  Revision,
} from '../../../../shared/wire/approvals.ts'
import { type Component, object, outlined, plain } from './component.ts'

const APPROVAL = {
  id: '',
  status: '`pending` until enough people have answered, it expires, or the call is cancelled.',
  subject: 'What a standing answer would be about: `tool:<name>`.',
  digest: 'The digest of the call that is asked about. Send it with the answer.',
  group: 'Equal for approvals of the same agent with the same tool version, arguments and plan.',
  call: '',
  prompt: '',
  options: 'The answers that policy permits. The default applies when nobody answers.',
  requested_at: 'When people were asked, in ms since 1970.',
  expires_at: 'When the approval expires, and the call ends.',
  answers: 'The answers so far, with how strongly each was authenticated.',
  edits: 'What operators changed of the arguments, oldest first.',
  links_revoked: 'The operators whose links were revoked.',
  url: 'Your personal link to the approval’s page, if you may answer.',
}

export const APPROVALS: Readonly<Record<string, Component>> = {
  ApprovalId: plain(ApprovalId, 'The id of an approval, which contains that of its run.'),
  ApprovalCard: object(Approval.shape.prompt, 'The parts of a call that operators see.', {
    title: 'The question.',
    agent: 'The agent that asks.',
    tool: 'The tool that it would call.',
    tool_version: 'The version of the tool.',
    risk: 'How much harm the call may do.',
    risk_ground: 'Why it has this risk.',
    command: 'The command line as a list; empty for a tool that runs no program.',
    plan: 'Where and how the call would run, in words.',
    arguments: 'The arguments, with secrets masked.',
    files: 'The files that the call brings.',
    on_yes: 'What happens after a yes.',
    standing: 'What an answer for more than this call would cover, and for how long.',
    policies: 'The policies that ask.',
    reason: 'Why people are asked.',
    on_behalf_of: 'The actor behind the agent, as the issuer of its token asserts.',
    via: 'The protocol of the proposal and what its client calls itself, if it is not this API.',
    agent_says: 'What the agent says it is doing and why. Nobody has verified it.',
  }),
  ArgumentChange: object(ArgumentChange, 'A place of the arguments that differs.', {
    at: 'A JSON pointer.',
    from: 'What it was, as JSON; null if there was nothing.',
    to: 'What it is.',
  }),
  ApprovalOption: object(Approval.shape.options.element, 'An answer that policy permits.', {
    decision: 'Yes or no.',
    scope: 'For this call alone, or for more.',
    ttl_s: 'For how long.',
    default: 'Chosen by Enter, and applied when nobody answers.',
  }),
  ApprovalAnswer: object(Approval.shape.answers.element, 'An answer that was given.', {
    by: '',
    decision: 'Yes or no.',
    channel: '',
    assurance: 'How strongly the operator was authenticated.',
    scope: 'For this call alone, or for more.',
    ttl_s: 'For how long.',
    reason: 'Why, in the operator’s words.',
    at_ms: 'When it was given.',
    standing: 'The standing answer that this one came from.',
  }),
  Approval: outlined(
    object(Approval, 'A question to operators about one call, and its outcome.', APPROVAL),
    'edits',
  ),
  ListedApproval: outlined(
    object(ListedApproval, 'An approval in a list.', {
      ...APPROVAL,
      alike: 'How many pending approvals its group has, if groups are listed once.',
    }),
    'edits',
  ),
  Answer: object(Answer, 'An answer to an approval.', {
    decision: 'Yes or no.',
    scope:
      '`once`: this call alone. The others cover later calls of its kind: until the session is reset, or for `ttl_s`.',
    ttl_s: 'For how long; with the scope `timeboxed` only.',
    reason: 'Why, for the record and for the agent.',
    digest: 'The digest of the call that you saw. Required if its arguments were changed.',
    arguments:
      'All arguments, to approve instead of the proposed ones. A masked value is sent as it is shown.',
    becomes: 'The digest that the preview of the changed arguments returned.',
  }),
  Editable: object(Editable, 'The arguments of an approval, in order to change them.', {
    digest: 'The digest of the call that has them.',
    arguments: 'The arguments. Secrets are masked; a masked value that is sent back stays as it is.',
  }),
  Revision: object(Revision, 'What an approval with changed arguments would do.', {
    digest: 'The digest of the call as it is.',
    becomes: 'The digest that it would have. Send it with the answer.',
    changes: 'The places that differ.',
    more: 'How many more places differ.',
    effect: '`ask`: other operators would still be asked.',
    prompt: '',
  }),
  Standing: object(
    STANDING.listStanding.result.shape.items.element,
    'An answer that applies to later calls of the same kind.',
    {
      id: 'The id of the answer.',
      decision: 'Whether the calls are approved or denied.',
      covers: 'The calls that it applies to, in words.',
      agent: '',
      agent_since_ms: 'When that agent was created: a later agent of the same name is another agent.',
      session: 'The session whose calls it covers.',
      tool: 'The version of the tool whose calls it covers.',
      policy_set: 'The policy set under which it was given.',
      scope: 'Until the session is reset, or for a time.',
      by: '',
      by_since_ms: 'When that operator was created.',
      channel: '',
      assurance: 'How strongly the operator was authenticated.',
      reason: 'Why, in the operator’s words.',
      at_ms: 'When it was given.',
      until_ms: 'When it ends.',
      approval: '',
      digest: 'The digest of that call.',
      live: 'Whether it still covers what it was given for.',
    },
  ),
}
