// `countersign wrap -- COMMAND…`: what an MCP client starts instead of a server. It registers the
// server as an upstream, if it may, and is itself a server whose tools are the accepted ones.

import { PATTERNS } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { StdioUpstream, type UpstreamWithTools } from '../../shared/wire/upstreams.ts'
import type { Trouble } from '../shell/command.ts'
import { alreadyPrinted, command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { parseInput } from '../shell/json-input.ts'
import { McpBridge } from './mcp-bridge.ts'
import { namesIn, readTools } from './upstreams.ts'

/** Programs that start another one, which their first plain argument names. */
const LAUNCHERS: readonly string[] = [
  'npx',
  'bunx',
  'uvx',
  'pipx',
  'node',
  'bun',
  'deno',
  'python',
  'python3',
]
const OWN_TOOLS = 'countersign_'

export const wrap = command({
  words: ['wrap'],
  args: {},
  flags: {
    name: { value: 'NAME', what: 'the upstream’s name (default: that of the program)' },
    hosts: { value: 'HOST:PORT,…', what: 'hosts that the server may reach, when it is registered' },
    session: { value: 'NAME', what: 'the session of its calls, which share a run (default: one run a day)' },
  },
  rest: 'the server’s program and its arguments',
  does: 'Serve MCP over standard input and output: workers run the wrapped server in their sandbox, and policy decides each call of its accepted tools',
  key: 'agent',
  exits: '0 the client has closed standard input; 1 the server can’t be wrapped',
  examples: [
    'countersign wrap -- /usr/local/bin/files-mcp',
    'countersign wrap --name docs -- npx some-server',
  ],
  async run({ flags, rest, connection, operatorApi, live }) {
    const name = flags.name ?? nameOf(rest)
    if (rest.length === 0) return err(usage('name the server’s program after `--`'))
    if (!PATTERNS.upstream.test(name))
      return err(usage('`--name` must be 1 to 24 of `a-z`, `0-9` and `-`, beginning with a letter'))
    const { note, until } = live()
    const ready = await introduce(operatorApi(), name, rest, flags.hosts)
    if (!ready.ok) return ready
    note(ready.value)
    const { url, key } = connection()
    const path = flags.session === undefined ? 'mcp' : `mcp/s/${encodeURIComponent(flags.session)}`
    const bridge = new McpBridge({
      input: process.stdin,
      write: (text) => void process.stdout.write(`${text}\n`),
      endpoint: new URL(path, url).href,
      key,
      shows: (tool) => tool.startsWith(`${name}_`) || tool.startsWith(OWN_TOOLS),
    })
    until.addEventListener('abort', () => process.stdin.destroy(), { once: true })
    await bridge.run(until).catch(() => undefined) // standard input broke, so the client is gone
    return ok(alreadyPrinted(true))
  },
})

/** The name of the package or program, changed where an upstream's name can't be the same. */
export function nameOf([program = '', ...args]: readonly string[]): string {
  const isLauncher = LAUNCHERS.includes(baseOf(program))
  const named = isLauncher ? args.find((arg) => !arg.startsWith('-')) : program
  const plain = baseOf(named ?? '')
    .replace(/@.*$/, '')
    .replace(/\.[a-z]+$/, '')
  return plain
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '')
    .slice(0, 24)
}
const baseOf = (path: string): string => path.split('/').at(-1) ?? ''

/** Registers the server if nobody has, and says in one sentence what an operator has to do. */
async function introduce(
  api: Api | undefined,
  name: string,
  command: readonly string[],
  hosts: string | undefined,
): Promise<Result<string, Trouble>> {
  if (api === undefined)
    return ok(
      `an operator registers this server with \`countersign upstreams add ${name} --worker -- …\` and accepts its tools; clients see the accepted ones`,
    )
  const params = { name }
  const known = await api('readUpstream', { params })
  if (!known.ok && known.error.code !== 'not_found') return known
  if (known.ok && !runs(known.value, command))
    return err(
      trouble('conflict', `the upstream \`${name}\` is another server`, 'choose another name with `--name`'),
    )
  const list = namesIn(hosts)
  if (known.ok && hosts !== undefined && !reaches(known.value, list))
    return err(
      trouble(
        'conflict',
        `the upstream \`${name}\` is registered with other hosts`,
        `change it with \`countersign upstreams add ${name} --worker --hosts ${hosts} -- …\`, or leave \`--hosts\` out`,
      ),
    )
  if (!known.ok) {
    const given = { kind: 'stdio', command: [...command], ...(list.length === 0 ? {} : { hosts: list }) }
    const spec = parseInput(StdioUpstream, given, 'the server')
    if (!spec.ok) return spec
    const put = await api('putUpstream', { params, body: spec.value })
    if (!put.ok) return put
  }
  const isListed = known.ok && known.value.looked_at_ms !== null
  const listed = isListed ? known : await readTools(api, name)
  return listed.ok ? ok(todo(listed.value)) : listed
}

const runs = (upstream: UpstreamWithTools, command: readonly string[]): boolean =>
  upstream.kind === 'stdio' && JSON.stringify(upstream.command) === JSON.stringify(command)

const reaches = (upstream: UpstreamWithTools, hosts: readonly string[]): boolean =>
  upstream.kind === 'stdio' &&
  JSON.stringify((upstream.hosts ?? []).toSorted()) === JSON.stringify(hosts.toSorted())

function todo({ name, tools }: UpstreamWithTools): string {
  const waiting = tools.filter(({ state }) => state === 'new' || state === 'changed').length
  const accepted = tools.filter(({ state }) => state === 'accepted').length
  const counts = `upstream \`${name}\`: ${accepted} of ${tools.length} tools accepted`
  return waiting === 0
    ? counts
    : `${counts}; read each other one with \`countersign upstreams diff ${name} TOOL\`, then \`countersign upstreams accept ${name} TOOL DEFINITION\``
}
