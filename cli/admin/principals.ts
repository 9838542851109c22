// Commands with which operators create, list and revoke agents, operators and workers.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { AgentSpec } from '../../shared/wire/principals.ts'
import type { Command, CommandOutput } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { parseInput, pastTime, readJsonObject } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'

const NAME = { NAME: 'its name' } as const
const names = (given: string | undefined): string[] | undefined =>
  given
    ?.split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
const done = (what: string): Result<CommandOutput, never> =>
  ok({ ok: true, json: { done: true }, text: `${what}\n` })

/** A principal after a change, and its key if one was made: the only time that it is shown. */
function principalText(kind: string, name: string, key: string | undefined, paint: Paint): string {
  const made = `${kind} ${paint.bold(inline(name))}\n`
  return key === undefined ? `${made}  its key is unchanged\n` : `${made}${secretText('key', key, paint)}`
}

/** The only time that it is shown. */
const secretText = (name: string, value: string, paint: Paint): string =>
  `${columns([[name, value]], '  ')}  ${paint.warn(`save this ${name} now: it is shown only once and is not stored`)}\n`

const webhookText = (secret: string | undefined, paint: Paint): string =>
  secret === undefined ? '' : secretText('webhook secret', secret, paint)

const listAgents = command({
  words: ['agents', 'list'],
  args: {},
  flags: {},
  does: 'List agents',
  key: 'operator',
  async run({ api, paint }) {
    const list = await api('listAgents', {})
    if (!list.ok) return list
    const rows = list.value.items.map(({ name, tools, channels, groups, pool, created_at_ms }) => [
      name,
      tools.join(','),
      channels?.join(',') ?? 'any',
      groups?.join(',') ?? '',
      pool ?? 'default',
      time(created_at_ms),
    ])
    return ok({
      ok: true,
      json: list.value.items,
      text: listing(paint, ['agent', 'tools', 'channels', 'groups', 'pool', 'created'], rows, 'no agents'),
    })
  },
})

const putAgent = command({
  words: ['agents', 'put'],
  args: {
    ...NAME,
    'FILE?': 'the agent as JSON, for settings that have no flag, such as its budget; - reads standard input',
  },
  flags: {
    tools: { value: 'TOOL,…', what: 'the tools that it may call; * allows all' },
    channels: { value: 'NAME,…', what: 'the channels that its runs may come from (default: any)' },
    groups: { value: 'NAME,…', what: 'the groups that it is in' },
    owners: { value: 'NAME,…', what: 'the operators responsible for it (default for a new agent: you)' },
    pool: { value: 'NAME', what: 'the pool of workers that runs its calls' },
    webhook: {
      value: 'URL',
      what: 'where the edge posts when one of its calls is answered or ends; prints the secret of a new URL, once',
    },
  },
  does: 'Create or change an agent; prints the key of a new one, once',
  key: 'operator',
  examples: ['countersign agents put reporter --tools text_stats,http_fetch'],
  async run({ args: { NAME: name, FILE: file }, flags, api, paint }) {
    const read = file === undefined ? ok({}) : readJsonObject(file)
    if (!read.ok) return read
    const lists = {
      tools: names(flags.tools),
      channels: names(flags.channels),
      groups: names(flags.groups),
      owners: names(flags.owners),
    }
    const webhook = flags.webhook === undefined ? undefined : { url: flags.webhook }
    const said = { ...lists, pool: flags.pool, webhook }
    const given = Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined))
    if (!('tools' in read.value) && given['tools'] === undefined)
      return err(
        usage(
          "`--tools` is missing: list the tools that the agent may call (`--tools text_stats,http_fetch`), or allow all (`--tools '*'`)",
        ),
      )
    const spec = parseInput(AgentSpec, { ...read.value, ...given }, 'the agent')
    if (!spec.ok) return spec
    const put = await api('putAgent', { params: { name }, body: spec.value })
    if (!put.ok) return put
    const { name: saved, key, webhook_secret } = put.value
    const text = `${principalText('agent', saved, key, paint)}${webhookText(webhook_secret, paint)}`
    return ok({ ok: true, json: put.value, text })
  },
})

const rotateWebhook = command({
  words: ['agents', 'rotate-webhook'],
  args: NAME,
  flags: {},
  does: 'Give an agent’s webhook a new secret; the old one also signs for a day',
  key: 'operator',
  async run({ args, api, paint }) {
    const put = await api('rotateAgentWebhook', { params: { name: args.NAME } })
    return put.ok
      ? ok({ ok: true, json: put.value, text: webhookText(put.value.webhook_secret, paint) })
      : put
  },
})

const listDeliveries = command({
  words: ['agents', 'deliveries'],
  args: NAME,
  flags: {},
  does: 'List the latest events that an agent’s webhook got or waits for',
  key: 'operator',
  async run({ args, api, paint }) {
    const list = await api('listAgentDeliveries', { params: { name: args.NAME } })
    if (!list.ok) return list
    const rows = list.value.items.map(({ id, type, call, state, tries, changed_at_ms, why }) => [
      id,
      type,
      call,
      state,
      String(tries),
      time(changed_at_ms),
      why ?? '',
    ])
    const head = ['event', 'type', 'call', 'state', 'attempts', 'changed', 'why']
    return ok({ ok: true, json: list.value.items, text: listing(paint, head, rows, 'no events') })
  },
})

const rotate = (kind: 'agent' | 'operator', route: 'rotateAgentKey' | 'rotateOperatorKey') =>
  command({
    words: [`${kind}s`, 'rotate'],
    args: NAME,
    flags: {},
    does: `Give an ${kind} a new key; the old one stops working immediately`,
    key: 'operator',
    async run({ args, api, paint }) {
      const put = await api(route, { params: { name: args.NAME } })
      return put.ok
        ? ok({ ok: true, json: put.value, text: principalText(kind, put.value.name, put.value.key, paint) })
        : put
    },
  })

const revokeAgent = command({
  words: ['agents', 'revoke'],
  args: NAME,
  flags: {},
  does: 'Revoke an agent, effective immediately',
  key: 'operator',
  async run({ args, api }) {
    const gone = await api('deleteAgent', { params: { name: args.NAME } })
    return gone.ok ? done(`agent ${args.NAME} revoked`) : gone
  },
})

const listOperators = command({
  words: ['operators', 'list'],
  args: {},
  flags: {},
  does: 'List operators',
  key: 'operator',
  async run({ api, paint }) {
    const list = await api('listOperators', {})
    if (!list.ok) return list
    const rows = list.value.items.map(({ name, roles, created_at_ms }) => [
      name,
      roles.join(','),
      time(created_at_ms),
    ])
    return ok({
      ok: true,
      json: list.value.items,
      text: listing(paint, ['operator', 'roles', 'created'], rows, 'no operators'),
    })
  },
})

const putOperator = command({
  words: ['operators', 'put'],
  args: NAME,
  flags: {
    roles: {
      value: 'ROLE,…',
      what: 'its roles; policies define what they mean. The default policies know admin, approver, auditor and courier',
    },
  },
  does: 'Create or change an operator; prints the key of a new one, once',
  key: 'operator',
  async run({ args: { NAME: name }, flags, api, paint }) {
    const roles = names(flags.roles)
    if (roles === undefined)
      return err(usage('`--roles` is missing; for example: countersign operators put NAME --roles approver'))
    const put = await api('putOperator', { params: { name }, body: { roles } })
    return put.ok
      ? ok({
          ok: true,
          json: put.value,
          text: principalText('operator', put.value.name, put.value.key, paint),
        })
      : put
  },
})

const revokeOperator = command({
  words: ['operators', 'revoke'],
  args: NAME,
  flags: {},
  does: 'Revoke an operator, effective immediately',
  key: 'operator',
  async run({ args, api }) {
    const gone = await api('deleteOperator', { params: { name: args.NAME } })
    return gone.ok ? done(`operator ${args.NAME} revoked`) : gone
  },
})

const listWorkers = command({
  words: ['workers', 'list'],
  args: {},
  flags: {},
  does: 'List workers, with the tiers that each has proven; C-nocgroup means that limits apply to each process, not to the whole call',
  key: 'operator',
  async run({ api, paint }) {
    const list = await api('listWorkers', {})
    if (!list.ok) return list
    const rows = list.value.items.map(
      ({ id, name, pool, advertised, status, seen_at_ms, doubled_at_ms, kid }) => [
        id,
        name,
        pool,
        advertised.join(','),
        doubled_at_ms === null ? status : `${status}, copied`,
        seen_at_ms === null ? 'never' : time(seen_at_ms),
        kid,
      ],
    )
    return ok({
      ok: true,
      json: list.value.items,
      text: listing(
        paint,
        ['worker', 'name', 'pool', 'tiers', 'status', 'last seen', 'key'],
        rows,
        'no workers',
      ),
    })
  },
})

const copiedKeyWarning = (at: number): string =>
  `warning: two processes used this worker’s key at the same time, most recently at ${time(at)}; if you did not copy it to a second host, revoke the worker and enrol its host again\n`

const showWorker = command({
  words: ['workers', 'show'],
  args: { WORKER: 'the worker’s id' },
  flags: {},
  does: 'Show what a worker has proven about its sandboxes, and what is missing',
  key: 'operator',
  async run({ args, api }) {
    const found = await api('readWorker', { params: { worker: args.WORKER } })
    if (!found.ok) return found
    const { name, pool, advertised, doubled_at_ms, proof } = found.value
    const head = `${inline(name)}, pool ${inline(pool)}, runs calls of: ${advertised.join(' and ') || 'no tier'}\n${doubled_at_ms === null ? '' : copiedKeyWarning(doubled_at_ms)}`
    if (proof === null)
      return ok({ ok: true, json: found.value, text: `${head}it has not sent a signed proof yet\n` })
    const { tiers, egress, cgroups, prepared, profiles = [] } = proof
    const own = profiles.map(
      ({ name: profile, proof: part }) => [`profile ${inline(profile)}`, part] as const,
    )
    const parts = [
      ...Object.entries({
        'tier B': tiers.B,
        'tier C': tiers.C,
        egress,
        cgroups,
        ...(prepared === undefined ? {} : { prepared }),
      }),
      ...own,
    ]
    const lines = parts.flatMap(([part, { ok: held, lack, checks }]) => [
      `${part}: ${lack ?? (held ? 'proven' : 'not proven')}`,
      ...checks.map(
        (check) => `  ${check.ok ? 'ok  ' : 'FAIL'}  ${inline(check.name)}: ${inline(check.seen)}`,
      ),
    ])
    const { kernel, bubblewrap, util_linux, node } = proof.versions
    const on = `tested at ${time(proof.at_ms)}, in ${proof.took_ms} ms; Linux ${kernel}, bubblewrap ${bubblewrap}, util-linux ${util_linux}, Node ${node}`
    return ok({ ok: true, json: found.value, text: `${head}${inline(on)}\n${lines.join('\n')}\n` })
  },
})

const enrolWorker = command({
  words: ['workers', 'enrol'],
  args: {},
  flags: { pool: { value: 'NAME', what: 'the pool that the worker joins (default: default)' } },
  does: 'Print a token that enrols one worker; it works once and expires soon',
  key: 'operator',
  examples: ['countersign workers enrol | countersign-worker enrol --config /etc/countersign/worker.json'],
  async run({ flags, api }) {
    const made = await api('createEnrolment', { body: flags.pool === undefined ? {} : { pool: flags.pool } })
    return made.ok ? ok({ ok: true, json: made.value, text: `${inline(made.value.token)}\n` }) : made // the token alone, to be piped
  },
})

const revokeWorker = command({
  words: ['workers', 'revoke'],
  args: { WORKER: 'the worker’s id' },
  flags: {
    'distrust-from': {
      value: 'TIME',
      what: 'since when somebody else may have had its key, e.g. 2026-11-20T09:00:00Z: nothing that it signed later is trusted',
    },
  },
  does: 'Revoke a worker, effective immediately; its running calls end as indeterminate',
  key: 'operator',
  async run({ args, flags, api }) {
    const since = flags['distrust-from']
    const distrusted = since === undefined ? ok(undefined) : pastTime('distrust-from', since)
    if (!distrusted.ok) return distrusted
    const query = distrusted.value === undefined ? {} : { distrusted_from_ms: distrusted.value }
    const gone = await api('revokeWorker', { params: { worker: args.WORKER }, query })
    return gone.ok ? done(`worker ${args.WORKER} revoked`) : gone
  },
})

export const PRINCIPALS: readonly Command[] = [
  listAgents,
  putAgent,
  rotate('agent', 'rotateAgentKey'),
  rotateWebhook,
  listDeliveries,
  revokeAgent,
  listOperators,
  putOperator,
  rotate('operator', 'rotateOperatorKey'),
  revokeOperator,
  listWorkers,
  showWorker,
  enrolWorker,
  revokeWorker,
]
