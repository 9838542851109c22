// Commands with which operators register MCP servers, look at what their tools say about themselves,
// and accept tools.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { Capability } from '../../shared/wire/tools.ts'
import { UpstreamAcceptance, UpstreamSpec, type UpstreamWithTools } from '../../shared/wire/upstreams.ts'
import type { Command } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { parseInput } from '../shell/json-input.ts'
import { columns, inert, inline, listing, type Paint, time } from '../shell/terminal-text.ts'

const NAME = { NAME: 'the upstream’s name' } as const
const TOOL = { ...NAME, TOOL: 'the tool, with or without the upstream’s name before it' } as const

/** Fewer characters of a digest could be matched by somebody who tries definitions. */
const MIN_DIGEST_CHARS = 12

export const namesIn = (given: string | undefined): string[] =>
  (given ?? '').split(',').flatMap((name) => name.trim() || [])
const toolOf = (upstream: string, tool: string): string =>
  tool.startsWith(`${upstream}_`) ? tool : `${upstream}_${tool}`

const add = command({
  words: ['upstreams', 'add'],
  args: { ...NAME, 'URL?': 'the address of its MCP endpoint, such as https://mcp.example.com/mcp' },
  flags: {
    worker: { what: 'a worker starts the server in its sandbox, with the command after `--`' },
    hosts: { value: 'HOST:PORT,…', what: 'with --worker: the hosts that the server may reach' },
    secrets: {
      value: 'NAME,…',
      what: 'with --worker: secrets that the server reads as files in /run/secrets; their `tools` list upstream:NAME',
    },
    env: { value: 'NAME=VALUE', many: true, what: 'with --worker: an environment variable of the server' },
    profile: { value: 'NAME', what: 'with --worker: a sandbox profile of the workers’ operator' },
    pool: { value: 'NAME', what: 'with --worker: the pool whose workers list its tools (default: default)' },
    'run-folder': { what: 'with --worker: the server works in the folder of its run' },
    secret: {
      value: 'NAME',
      what: 'the secret with which the edge authenticates; the tools that may use it must include upstream:NAME',
    },
    header: { value: 'HEADER', what: 'the header that carries the secret (default: authorization)' },
    format: { value: 'TEXT', what: 'the header’s value, in which {} is the secret (default: Bearer {})' },
    'client-id': { value: 'ID', what: 'OAuth client credentials: the client whose secret it is' },
    'token-url': { value: 'URL', what: 'OAuth client credentials: where the edge gets its tokens' },
    scope: { value: 'SCOPE', what: 'OAuth client credentials: the scope that it asks for' },
    timeout: {
      value: 'SECONDS',
      what: 'the longest time that one call may take (default: 60, with --worker 30)',
    },
  },
  rest: 'with --worker: the server’s program and its arguments',
  does: 'Register or change an MCP server and read its tools. Agents may call a tool after you have accepted it',
  key: 'operator',
  examples: [
    'countersign upstreams add docs https://mcp.example.com/mcp',
    'pass show tracker | countersign secrets put tracker-token - --tools upstream:tracker --hosts mcp.example.com:443',
    'countersign upstreams add tracker https://mcp.example.com/mcp --secret tracker-token',
    'countersign upstreams add files --worker --run-folder -- /usr/local/bin/files-mcp /workspace',
  ],
  async run({ args: { NAME: name, URL: url }, flags, rest, api, paint }) {
    const given = flags.worker ? serverOf(url, flags, rest) : remoteOf(url, flags, rest)
    if (!given.ok) return given
    const spec = parseInput(UpstreamSpec, given.value, 'the upstream')
    if (!spec.ok) return spec
    const put = await api('putUpstream', { params: { name }, body: spec.value })
    if (!put.ok) return put
    const read = await readTools(api, name)
    if (!read.ok) return read
    return ok({ ok: true, json: read.value, text: toolsText(paint, read.value) })
  },
})

/** The edge waits long for a worker that starts a program, and the reason comes at the end. */
export const readTools = (api: Api, name: string) =>
  api('refreshUpstream', { params: { name }, body: {}, wait: LIMITS.upstream_listing_ms / 1_000 })

type ServerFlags = {
  readonly [K in 'hosts' | 'secrets' | 'profile' | 'pool' | 'timeout']: string | undefined
} & { readonly env: readonly string[]; readonly 'run-folder': boolean }

/** `limits` only if a time is given: the rest has defaults. */
const limitsOf = ({ timeout }: { readonly timeout: string | undefined }) =>
  timeout === undefined ? {} : { limits: { timeout_ms: Number(timeout) * 1_000 } }

/** A server that a worker starts. */
function serverOf(url: string | undefined, flags: ServerFlags, command: readonly string[]) {
  if (url !== undefined || command.length === 0)
    return err(usage('`--worker` takes the server’s command after `--`, and no address'))
  const [hosts, secrets] = [namesIn(flags.hosts), namesIn(flags.secrets)]
  const malformed = flags.env.find((item) => !item.includes('='))
  if (malformed !== undefined) return err(usage(`\`--env ${malformed}\` has no value; write NAME=VALUE`))
  const env = flags.env.map((item) => [item.slice(0, item.indexOf('=')), item.slice(item.indexOf('=') + 1)])
  return ok({
    kind: 'stdio' as const,
    command: [...command],
    ...(env.length === 0 ? {} : { env: Object.fromEntries(env) as Record<string, string> }), // pairs, see above
    ...(hosts.length === 0 ? {} : { hosts }),
    ...(secrets.length === 0 ? {} : { secrets }),
    ...(flags.profile === undefined ? {} : { profile: flags.profile }),
    ...(flags.pool === undefined ? {} : { pool: flags.pool }),
    ...(flags['run-folder'] ? { workspace: 'run' as const } : {}),
    ...limitsOf(flags),
  })
}

/** A server that the edge calls. */
function remoteOf(
  url: string | undefined,
  flags: AuthFlags & { readonly timeout: string | undefined },
  rest: readonly string[],
) {
  if (url === undefined || rest.length > 0)
    return err(usage('name the address of the server, or give its command: `--worker -- COMMAND…`'))
  const auth = authOf(flags)
  if (!auth.ok) return auth
  const authentication = auth.value === undefined ? {} : { auth: auth.value }
  return ok({ kind: 'http' as const, url, ...authentication, ...limitsOf(flags) })
}

type AuthFlags = {
  readonly [K in 'secret' | 'header' | 'format' | 'client-id' | 'token-url' | 'scope']: string | undefined
}

function authOf(flags: AuthFlags) {
  const { secret, header = 'authorization', format, scope } = flags
  const [client_id, token_url] = [flags['client-id'], flags['token-url']]
  if (secret === undefined)
    return client_id === undefined && token_url === undefined && flags.header === undefined
      ? ok(undefined)
      : err(usage('`--secret` is missing: name the secret with which the edge authenticates'))
  if (client_id === undefined && token_url === undefined)
    return ok({
      kind: 'header' as const,
      secret,
      header,
      format: format ?? (header === 'authorization' ? 'Bearer {}' : '{}'),
    })
  if (client_id === undefined || token_url === undefined)
    return err(usage('client credentials need both `--client-id` and `--token-url`'))
  return ok({
    kind: 'client_credentials' as const,
    secret,
    client_id,
    token_url,
    ...(scope === undefined ? {} : { scope }),
  })
}

const list = command({
  words: ['upstreams', 'list'],
  args: {},
  flags: {},
  does: 'List upstreams with the number of their tools in each state',
  key: 'operator',
  async run({ api, paint }) {
    const upstreams = await api('listUpstreams', {})
    if (!upstreams.ok) return upstreams
    const rows = upstreams.value.items.map(({ tools, looked_at_ms, fault, ...upstream }) => [
      upstream.name,
      placeOf(upstream),
      `${tools.accepted} accepted, ${tools.changed} changed, ${tools.gone} gone, ${tools.new} new, ${tools.refused} refused`,
      fault === null ? (looked_at_ms === null ? 'never read' : `read ${time(looked_at_ms)}`) : inline(fault),
    ])
    return ok({
      ok: true,
      json: upstreams.value.items,
      text: listing(paint, ['upstream', 'address', 'tools', ''], rows, 'no upstreams'),
    })
  },
})

const show = command({
  words: ['upstreams', 'show'],
  args: NAME,
  flags: {},
  does: 'Show an upstream and its tools: which are accepted, which have changed, which can’t be accepted and why',
  key: 'operator',
  async run({ args, api, paint }) {
    const upstream = await api('readUpstream', { params: { name: args.NAME } })
    if (!upstream.ok) return upstream
    return ok({ ok: true, json: upstream.value, text: toolsText(paint, upstream.value) })
  },
})

const refresh = command({
  words: ['upstreams', 'refresh'],
  args: NAME,
  flags: {},
  does: 'Read the tools of an upstream now and compare them with the accepted ones',
  key: 'operator',
  async run({ args, api, paint }) {
    const upstream = await readTools(api, args.NAME)
    if (!upstream.ok) return upstream
    return ok({ ok: true, json: upstream.value, text: toolsText(paint, upstream.value) })
  },
})

const diff = command({
  words: ['upstreams', 'diff'],
  args: TOOL,
  flags: {},
  does: 'Show the definition of a tool, and how it differs from the accepted one; invisible characters are escaped',
  key: 'operator',
  async run({ args: { NAME: name, TOOL: tool }, api, paint }) {
    const read = await api('readUpstreamTool', { params: { name, tool: toolOf(name, tool) } })
    if (!read.ok) return read
    const { changes, seen, tool: shown } = read.value
    const text =
      shown.pinned === null || changes.length === 0
        ? `${inert(seen ?? 'the server does not list it')}\n`
        : changes
            .map(({ at, was, is }) => `${paint.bold(inline(at))}\n- ${inline(was)}\n+ ${inline(is)}\n`)
            .join('')
    const digest = shown.seen === null ? '' : `${paint.dim('definition')} ${shown.seen}\n`
    return ok({ ok: true, json: read.value, text: `${text}${digest}` })
  },
})

const accept = command({
  words: ['upstreams', 'accept'],
  args: {
    ...TOOL,
    DEFINITION:
      'the digest of the definition that you accept, from `upstreams diff` (12 characters are enough)',
  },
  flags: {
    capabilities: {
      value: 'NAME,…',
      what: `what it can do, which policies read; any of ${Capability.options.join(', ')}`,
    },
    groups: { value: 'NAME,…', what: 'groups of tools that policies name' },
    'not-sensitive': { what: 'the default policies ask for no approval of its calls' },
    idempotent: { what: 'calling it twice does no more than calling it once' },
    'whole-results': {
      what: 'pass its results on whole, with images, audio and resources, as JSON for MCP clients',
    },
  },
  does: 'Accept the definition of a tool, so that agents may call it. Without flags every call needs an approval',
  key: 'operator',
  examples: [
    'countersign upstreams diff docs search',
    'countersign upstreams accept docs search 3b1f09c2ade4 --not-sensitive',
  ],
  async run({ args: { NAME: name, TOOL: given, DEFINITION: looked }, flags, api }) {
    const params = { name, tool: toolOf(name, given) }
    const shown = await api('readUpstreamTool', { params })
    if (!shown.ok) return shown
    const definition = shown.value.tool.seen ?? ''
    if (looked.length < MIN_DIGEST_CHARS || !definition.startsWith(looked))
      return err(
        usage('the server does not list this definition now; give the digest that `upstreams diff` prints'),
      )
    const groups = namesIn(flags.groups)
    const wanted = {
      definition,
      capabilities: namesIn(flags.capabilities),
      ...(groups.length === 0 ? {} : { groups }),
      sensitive: !flags['not-sensitive'],
      idempotent: flags.idempotent,
      ...(flags['whole-results'] ? { result: 'mcp' } : {}),
    }
    const body = parseInput(UpstreamAcceptance, wanted, 'the acceptance')
    if (!body.ok) return body
    const accepted = await api('acceptUpstreamTool', { params, body: body.value })
    if (!accepted.ok) return accepted
    return ok({ ok: true, json: accepted.value, text: `tool ${accepted.value.name} accepted\n` })
  },
})

const withdraw = command({
  words: ['upstreams', 'withdraw'],
  args: TOOL,
  flags: {},
  does: 'Withdraw the acceptance of a tool, so that agents can’t call it',
  key: 'operator',
  async run({ args: { NAME: name, TOOL: tool }, api }) {
    const gone = await api('withdrawUpstreamTool', { params: { name, tool: toolOf(name, tool) } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `tool ${gone.value.name} withdrawn\n` }) : gone
  },
})

const remove = command({
  words: ['upstreams', 'remove'],
  args: NAME,
  flags: {},
  does: 'Remove an upstream with its tools; their versions stay on record',
  key: 'operator',
  async run({ args, api }) {
    const gone = await api('removeUpstream', { params: { name: args.NAME } })
    return gone.ok ? ok({ ok: true, json: gone.value, text: `upstream ${args.NAME} removed\n` }) : gone
  },
})

const log = command({
  words: ['upstreams', 'log'],
  args: {},
  flags: { after: { value: 'NUMBER', what: 'only entries after this one (default: 0)' } },
  does: 'List who registered which server, and accepted or withdrew which definition of a tool, and what was quarantined',
  key: 'operator',
  async run({ flags, api, paint }) {
    const entries = await api('readUpstreamJournal', { query: { after: Number(flags.after ?? 0) } })
    if (!entries.ok) return entries
    const rows = entries.value.items.map(({ seq, at_ms, kind, body }) => [
      String(seq),
      time(at_ms),
      kind.slice('upstream.'.length).replaceAll('_', ' '),
      inline(String(body['tool'] ?? body['upstream'])),
      inline(String(body['definition'] ?? body['url'] ?? '')),
      inline(String(body['by'] ?? '')),
    ])
    return ok({
      ok: true,
      json: entries.value.items,
      text: listing(paint, ['', 'at', 'event', 'of', 'definition or address', 'by'], rows, 'no events'),
    })
  },
})

type Place =
  | { readonly kind: 'http'; readonly url: string }
  | { readonly kind: 'stdio'; readonly command: readonly string[] }

/** The address of a server, or the command with which workers start it. */
function placeOf(place: Place): string {
  if (place.kind === 'http') return place.url
  const command = inline(place.command.join(' '))
  return command.length > SHOWN_COMMAND_CHARS ? `${command.slice(0, SHOWN_COMMAND_CHARS)}…` : command
}
const SHOWN_COMMAND_CHARS = 100

function toolsText(paint: Paint, upstream: UpstreamWithTools): string {
  const { name, era, fault, tools, refused } = upstream
  const head = columns(
    [
      [upstream.kind === 'http' ? 'address' : 'command', placeOf(upstream)],
      ['protocol', era ?? 'unknown'],
      ...(fault === null ? [] : [['fault', inline(fault)]]),
    ],
    '  ',
  )
  const rows = [
    ...tools.map((tool) => [tool.name, tool.state, inline(tool.faults[0] ?? tool.description).slice(0, 100)]),
    ...refused.map(({ tool, why }) => [inline(tool), 'refused', inline(why)]),
  ]
  return `upstream ${paint.bold(name)}\n${head}${listing(paint, ['tool', 'state', ''], rows, 'no tools')}`
}

export const UPSTREAMS: readonly Command[] = [add, list, show, refresh, diff, accept, withdraw, remove, log]
