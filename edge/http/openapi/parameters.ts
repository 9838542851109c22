// The meaning of parameters, for the API description.

const BY_NAME: Readonly<Record<string, string>> = {
  run: 'The id of the run.',
  call: 'The id of the call.',
  sha256: 'The digest of the file’s bytes.',
  part: 'The number of the part, from 0.',
  id: 'The id.',
  name: 'The name.',
  token: 'The token of the link.',
  tenant: 'The name of the tenant.',
  worker: 'The id of the worker.',
  kid: 'The id of the key.',
  subject: '`tenant`, or the id of a run.',
  session: 'The id of the session, as the agent chose it.',
  version: 'The version.',
  agent: 'Only those of this agent. An agent leaves it out.',
  tool: 'Only those of this tool.',
  state: 'Only those in this state.',
  since: 'Only those created at this time or later, in milliseconds since 1970.',
  limit: 'The maximum number of items on the page.',
  cursor: '`next` of the previous page.',
  after: 'The last item of the previous page.',
  before: 'The last item of the previous page.',
  last: 'Instead of `after`: this many of the latest.',
  status: 'Only those in this state.',
  alike: '`once` lists identical pending approvals as one item, with their number.',
  group: 'Only those of this group.',
  of: 'The operator. Without it, all.',
  from: 'The index of the first entry.',
  index: 'The index of the leaf.',
  size: 'The size of the tree.',
  against: 'The version to compare with. Without it, the active one.',
  pin: 'Lists the publisher of a first package with this key.',
  risk: 'Only those of this risk.',
  text: 'Only those whose card contains this text.',
  order: 'Which approvals come first.',
  past: 'The last item of the previous page.',
  approval: 'Only this approval.',
  'if-match': 'The `ETag` of the set that the change is based on. If another is active, it is refused.',
  'last-event-id': 'The id of the last event that was received; the stream goes on after it.',
  'x-request-id': 'An id of your choice, which the answer repeats.',
  'x-slack-signature': 'Slack’s signature over version, time and body.',
  'x-slack-request-timestamp': 'When Slack sent the request.',
}

/** Exceptions: a name that means something else in one route. */
const BY_ROUTE: Readonly<Record<string, string>> = {
  'listChanges after': 'The number of the last change that was received. Without it, only the latest number.',
  'followCall after': 'The position after which the stream begins: the id of an event.',
  'readExport from': '`next` of the part before. Without it, the first part.',
  'storeExport from': '`next` of the part before. Without it, the first part.',
  'evidenceSchema name': 'The name of the format, with `.json`.',
  'listSkills id': 'Only versions of this skill.',
  'revokeLinks of': 'The operator whose links are revoked. Without it, those of all.',
}

export const parameterText = (route: string, name: string): string | undefined =>
  BY_ROUTE[`${route} ${name}`] ?? BY_NAME[name]
