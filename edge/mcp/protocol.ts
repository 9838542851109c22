// Names and numbers of the Model Context Protocol that several files of this room need.

/** Revisions of one endpoint: the stateless one, and those that begin with `initialize`. */
export const MODERN = '2026-07-28'
export const LEGACY = ['2025-11-25', '2025-06-18', '2025-03-26'] as const
export type Era = 'modern' | 'legacy'

/** JSON-RPC's own codes, and those that the specification reserves. */
export const RPC = {
  parse: -32700,
  invalidRequest: -32600,
  noMethod: -32601,
  invalidParams: -32602,
  internal: -32603,
  headerMismatch: -32020,
  missingCapability: -32021,
  unsupportedVersion: -32022,
} as const

/** Keys of `_meta` that the specification owns. */
export const META = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const
export const TASKS = 'io.modelcontextprotocol/tasks'

/** The prefix of our own keys in `_meta`. */
export const OURS = 'dev.countersign/'

/** The tool that reads a call. No other tool has a name that begins with `countersign_`. */
export const RESULT_TOOL = 'countersign_result'

export const SERVER_INFO = { name: 'countersign', version: '1' } as const

/** Shown to models by many clients, so it names no date, number or host. */
export const INSTRUCTIONS =
  'Each tool call is decided by a policy before it runs, and some calls wait for a human. ' +
  'A result that begins with PENDING is not a failure: the call has been proposed and waits. ' +
  `Fetch it with \`${RESULT_TOOL}\` and its call id, and do not call the tool again for the same purpose. ` +
  'A denial says what would change it.'
