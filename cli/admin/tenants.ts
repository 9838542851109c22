// `countersign tenants`: the operator of the installation creates, lists, limits, suspends, resumes
// and deletes tenants.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Tenant, TenantUsage, TenantUse } from '../../shared/wire/tenants.ts'
import { Quota } from '../../shared/wire/tenants.ts'
import type { Command, CommandOutput, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { parseInput } from '../shell/json-input.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'

const NAME = { NAME: 'the tenant’s name' } as const
const QUOTA = {
  calls: { value: 'N', what: 'calls that its agents may propose within one day in UTC' },
  storage: {
    value: 'BYTES',
    what: 'bytes that it may store: what calls leave, files of runs, and storage and code of skills',
  },
  workers: { value: 'N', what: 'workers that may be enrolled at a time' },
  streams: { value: 'N', what: 'pages and streams that may be open at a time' },
} as const
const REASON = { reason: { value: 'TEXT', what: 'why, for the journal' } } as const

type QuotaFlags = Readonly<Record<keyof typeof QUOTA, string | undefined>>

function quotaIn({ calls, storage, workers, streams }: QuotaFlags) {
  const texts = { calls_per_day: calls, storage_bytes: storage, workers, streams }
  const given = Object.entries(texts).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  )
  const wrong = given.find(({ value }) => !/^\d+$/.test(value))
  if (wrong !== undefined)
    return err(usage(`the quota \`${wrong.name}\` must be a whole number in digits, such as 1000`))
  return parseInput(
    Quota.partial(),
    Object.fromEntries(given.map(({ name, value }) => [name, Number(value)])),
    'the quota',
  )
}

const rowsOf = ({ name, state, quota, created_at_ms, changed_at_ms, erased }: Tenant): [string, string][] => [
  ['tenant', inline(name)],
  ['state', state === 'deleted' && erased !== true ? 'deleted; its data is still being removed' : state],
  ['created', time(created_at_ms)],
  ['changed', time(changed_at_ms)],
  ['calls a day', String(quota.calls_per_day)],
  ['bytes of storage', String(quota.storage_bytes)],
  ['workers', String(quota.workers)],
  ['open streams', String(quota.streams)],
]
const tenantOutput = (tenant: Tenant): CommandOutput => ({
  ok: true,
  json: tenant,
  text: columns(rowsOf(tenant), ''),
})

const list = command({
  words: ['tenants', 'list'],
  args: {},
  flags: { after: { value: 'NAME', what: 'list tenants after this name' } },
  does: `List tenants by name, deleted ones included, ${LIMITS.page} at a time`,
  key: 'installation',
  async run({ flags, api, paint }) {
    const tenants = await api('listTenants', {
      query: flags.after === undefined ? {} : { after: flags.after },
    })
    if (!tenants.ok) return tenants
    const rows = tenants.value.items.map(({ name, state, created_at_ms }) => [
      name,
      state,
      time(created_at_ms),
    ])
    const last = tenants.value.items.at(-1)
    const more =
      last === undefined || rows.length < LIMITS.page
        ? ''
        : `there may be more: \`countersign tenants list --after ${last.name}\`\n`
    const text = `${listing(paint, ['tenant', 'state', 'created'], rows, 'no tenants')}${more}`
    return ok({ ok: true, json: tenants.value.items, text })
  },
})

const create = command({
  words: ['tenants', 'create'],
  args: NAME,
  flags: { operator: { value: 'NAME', what: 'the name of its first operator (default: root)' }, ...QUOTA },
  does: 'Create a tenant; prints the key of its first operator, once',
  key: 'installation',
  examples: ['countersign tenants create acme --operator alice --calls 10000'],
  async run({ args, flags, api, paint }) {
    const quota = quotaIn(flags)
    if (!quota.ok) return quota
    const body = {
      name: args.NAME,
      quota: quota.value,
      ...(flags.operator === undefined ? {} : { operator: flags.operator }),
    }
    const made = await api('createTenant', { body })
    if (!made.ok) return made
    const { operator, key } = made.value
    const rows: [string, string][] = [...rowsOf(made.value), ['operator', inline(operator)], ['key', key]]
    return ok({
      ok: true,
      json: made.value,
      text: `${columns(rows, '')}${paint.warn('save this key now: it is shown only once and is not stored')}\n`,
    })
  },
})

const usedRows = (use: TenantUse): [string, string][] => [
  ['calls today', String(use.calls_today)],
  ['calls ended', String(use.calls_ended)],
  ['calls open', `${use.calls_open} in ${use.runs_open} runs`],
  ['bytes in use', String(use.storage_bytes)],
  ['  of which by calls', String(use.calls_bytes)],
  ['  of which by skills', String(use.skills_bytes)],
  ['workers enrolled', String(use.workers)],
  ['streams in use', String(use.streams)],
]

const show = command({
  words: ['tenants', 'show'],
  args: NAME,
  flags: {},
  does: 'Show a tenant, its quota and its current use',
  key: 'installation',
  async run({ args, api }) {
    const read = await api('readTenant', { params: { tenant: args.NAME } })
    if (!read.ok) return read
    const { use } = read.value
    const used = use === null ? [] : usedRows(use)
    return ok({ ok: true, json: read.value, text: columns([...rowsOf(read.value), ...used], '') })
  },
})

const usageOf = command({
  words: ['tenants', 'usage'],
  args: { 'NAME?': 'the tenant, for the operator of the installation; without it, your own' },
  flags: {},
  does: 'Show what a tenant uses, and how much it may use',
  key: 'operator',
  keyForArgument: 'installation',
  examples: ['countersign tenants usage', 'countersign tenants usage acme --json'],
  async run({ args, api, paint }) {
    const read = await (args.NAME === undefined ? api('readUsage', {}) : usageInInstallation(api, args.NAME))
    if (!read.ok) return read
    const { tenant, quota, use } = read.value
    const limited: string[][] = [
      ['calls today', String(use.calls_today), String(quota.calls_per_day)],
      ['bytes stored', String(use.storage_bytes), String(quota.storage_bytes)],
      ['  of which by calls', String(use.calls_bytes), ''],
      ['  of which by skills', String(use.skills_bytes), ''],
      ['workers', String(use.workers), String(quota.workers)],
      ['open streams', String(use.streams), String(quota.streams)],
      ['calls ended', String(use.calls_ended), ''],
      ['calls open', String(use.calls_open), ''],
      ['runs with open calls', String(use.runs_open), ''],
    ]
    const text = listing(paint, [inline(tenant), 'used', 'quota'], limited, '')
    return ok({ ok: true, json: read.value, text })
  },
})

async function usageInInstallation(api: Api, tenant: string): Promise<Result<TenantUsage, Trouble>> {
  const read = await api('readTenant', { params: { tenant } })
  if (!read.ok) return read
  const { quota, use } = read.value
  return use === null
    ? err(trouble('tenant_deleted', `the tenant \`${tenant}\` was deleted, and uses nothing`))
    : ok({ tenant, quota, use })
}

const quota = command({
  words: ['tenants', 'quota'],
  args: NAME,
  flags: QUOTA,
  does: 'Change the quota of a tenant; limits that you leave out keep their values',
  key: 'installation',
  examples: ['countersign tenants quota acme --workers 20'],
  async run({ args, flags, api }) {
    const change = quotaIn(flags)
    if (!change.ok) return change
    if (Object.keys(change.value).length === 0)
      return err(usage('nothing to change: give `--calls`, `--storage`, `--workers` or `--streams`'))
    const put = await api('putQuota', { params: { tenant: args.NAME }, body: change.value })
    return put.ok ? ok(tenantOutput(put.value)) : put
  },
})

/** Suspending and resuming differ only in their words and their route. */
const changeState = (word: string, route: 'suspendTenant' | 'resumeTenant', does: string) =>
  command({
    words: ['tenants', word],
    args: NAME,
    flags: REASON,
    does,
    key: 'installation',
    async run({ args, flags, api }) {
      const done = await api(route, {
        params: { tenant: args.NAME },
        body: flags.reason === undefined ? {} : { reason: flags.reason },
      })
      return done.ok ? ok(tenantOutput(done.value)) : done
    },
  })

const suspend = changeState(
  'suspend',
  'suspendTenant',
  'Suspend a tenant immediately: its keys are refused, running calls may finish, and its data is kept',
)
const resume = changeState('resume', 'resumeTenant', 'Resume a suspended tenant')

const remove = command({
  words: ['tenants', 'delete'],
  args: { ...NAME, AGAIN: 'its name again, because a deletion can’t be undone' },
  flags: {
    'without-export': {
      what: 'remove its runs without exporting them to its export target; also for a deleted tenant whose exports fail',
    },
  },
  does: 'Delete a suspended tenant and all its data permanently; its name can’t be used again; `default` can’t be deleted',
  key: 'installation',
  examples: ['countersign tenants delete acme acme'],
  async run({ args, flags, api }) {
    if (args.AGAIN !== args.NAME)
      return err(usage('the two names differ, so nothing was deleted; give the same name twice'))
    const body = { name: args.AGAIN, without_export: flags['without-export'] }
    const done = await api('deleteTenant', { params: { tenant: args.NAME }, body })
    return done.ok ? ok(tenantOutput(done.value)) : done
  },
})

export const TENANTS: readonly Command[] = [list, create, show, usageOf, quota, suspend, resume, remove]
