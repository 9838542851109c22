// Commands that store, activate, roll back, show and compare versions of the policy set. Each
// change names the version that it expects in force (`If-Match`), so that nobody overwrites the
// change of a colleague.

import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output as RouteOutput } from '../../shared/routes/client.ts'
import type { Command, CommandOutput, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, quoted, time } from '../shell/terminal-text.ts'
import { warningLines } from './check.ts'
import { nextStep, showChange } from './diff.ts'
import { DIR, readFolder, withPath } from './folder.ts'

type Version = RouteOutput<'listPolicyVersions'>['items'][number]
type PutResult = RouteOutput<'putPolicies'>

const EXPECT = {
  expect: {
    value: 'VERSION',
    what: 'refuse if another version is in force, unless nothing would change (default: the version in force when the command starts)',
  },
} as const
const VERSION = { VERSION: 'the version’s number' } as const

const list = command({
  words: ['policy', 'list'],
  args: {},
  flags: { before: { value: 'VERSION', what: 'list versions older than this one, for the next page' } },
  does: 'List the versions of the tenant’s policy set, newest first',
  key: 'operator',
  async run({ flags, api, paint }) {
    const read = await api(
      'listPolicyVersions',
      flags.before === undefined ? {} : { query: { before: flags.before } },
    )
    if (!read.ok) return read
    const rows = read.value.items.map(
      ({ version, active, shadow, author, created_at_ms, activated_at_ms, activated_by, note }) => [
        String(version),
        active ? 'in force' : shadow ? 'shadow' : '',
        author,
        time(created_at_ms),
        activated_at_ms === null ? 'never in force' : `${time(activated_at_ms)} by ${activated_by ?? ''}`,
        note,
      ],
    )
    const heading = ['version', '', 'author', 'created', 'last in force since', 'note']
    return ok({ ok: true, json: read.value.items, text: listing(paint, heading, rows, 'no versions') })
  },
})

const show = command({
  words: ['policy', 'show'],
  args: { 'VERSION?': 'a version (default: the one in force, with the floor)' },
  flags: { only: { value: 'NAME', what: 'show only this policy text' } },
  does: 'Show the policies of a version',
  key: 'operator',
  async run({ args: { VERSION: version }, flags, api, paint }) {
    const read =
      version === undefined
        ? await api('readPolicies', {})
        : await api('readPolicyVersion', { params: { version } })
    if (!read.ok) return read
    const floor = 'floor' in read.value ? Object.entries(read.value.floor) : []
    const texts = [
      ...floor.map(([name, text]) => ({ name, of: 'floor', text })),
      ...Object.entries(read.value.policies).map(([name, text]) => ({ name, of: 'tenant', text })),
    ]
    const wanted = texts.filter(({ name }) => flags.only === undefined || name === flags.only)
    if (wanted.length === 0 && flags.only !== undefined)
      return err(trouble('not_found', `this version has no policy text \`${flags.only}\``))
    const text = wanted
      .map(({ name, of, text: cedar }) => `${paint.bold(inline(name))}  ${of}\n${quoted(cedar)}`)
      .join('')
    return ok({ ok: true, json: read.value, text: `${versionText(read.value, paint)}${text}` })
  },
})

const put = command({
  words: ['policy', 'put'],
  args: DIR,
  flags: {
    note: {
      value: 'TEXT',
      what: 'why; stored with the version. Until the version has been in force, its author can replace the note',
    },
    'no-activate': { what: 'only check and store it; the version in force does not change' },
    ...EXPECT,
  },
  does: 'Store a complete policy set as a new version and put it in force; a set equal to the newest version makes no new version',
  key: 'operator',
  examples: [
    'countersign policy put my-policies --note "refunds"',
    'countersign policy put my-policies --no-activate',
  ],
  async run({ args: { DIR: dir }, flags, api, paint }) {
    const policies = readFolder(dir)
    if (!policies.ok) return policies
    const { note } = flags
    const body = {
      policies: policies.value,
      activate: !flags['no-activate'],
      ...(note === undefined ? {} : { note }),
    }
    const here = <P extends { readonly at: string }>(places: readonly P[]): P[] =>
      places.map((place) => ({ ...place, at: withPath(place.at, dir, policies.value) }))
    const done = await changeIfInForce(api, flags.expect, paint, async ({ match }) => {
      const answer = await api('putPolicies', { body, headers: { 'if-match': match } })
      return answer.ok ? ok({ ...answer.value, warnings: here(answer.value.warnings) }) : answer
    })
    if (!done.ok && done.error.errors !== undefined)
      return err({ ...done.error, errors: here(done.error.errors) })
    return done
  },
})

const activate = command({
  words: ['policy', 'activate'],
  args: VERSION,
  flags: EXPECT,
  does: 'Put a version in force, newer or older; it is checked again first',
  key: 'operator',
  async run({ args: { VERSION: version }, flags, api, paint }) {
    return changeIfInForce(api, flags.expect, paint, ({ match }) =>
      api('activatePolicyVersion', { params: { version }, headers: { 'if-match': match } }),
    )
  },
})

const rollback = command({
  words: ['policy', 'rollback'],
  args: {},
  flags: EXPECT,
  does: 'Put the previously active version in force again; a second rollback undoes the first',
  key: 'operator',
  async run({ flags, api, paint }) {
    return changeIfInForce(api, flags.expect, paint, async ({ match, previous }) =>
      previous === null
        ? err(
            trouble(
              'not_found',
              'no version was in force before this one',
              'choose one from `countersign policy list`',
            ),
          )
        : api('activatePolicyVersion', {
            params: { version: String(previous) },
            headers: { 'if-match': match },
          }),
    )
  },
})

const diff = command({
  words: ['policy', 'diff'],
  args: VERSION,
  flags: { against: { value: 'VERSION', what: 'the version to compare with (default: the one in force)' } },
  does: 'Show what a version would change, policy by policy',
  key: 'operator',
  exits: '0 compared, whether or not they differ; 1 refused or failed',
  async run({ args: { VERSION: version }, flags, api, paint }) {
    const query = flags.against === undefined ? {} : { against: flags.against }
    const read = await api('diffPolicyVersions', { params: { version }, query })
    if (!read.ok) return read
    const { against, changes } = read.value
    const heading = `version ${read.value.version} against ${against}: ${changes.length === 0 ? 'no policy differs' : `${changes.length} changed`}\n`
    const next =
      flags.against === undefined && read.value.version !== against ? nextStep(read.value, paint) : ''
    return ok({
      ok: true,
      json: read.value,
      text: `${heading}${changes.map((change) => showChange(change, paint)).join('')}${next}`,
    })
  },
})

type Expected = { readonly match: string; readonly previous: number | null }

/**
 * Runs a change only if the expected version is in force: `--expect`, or the one read at the start.
 */
async function changeIfInForce(
  api: Api,
  expect: string | undefined,
  paint: Paint,
  change: (seen: Expected) => Promise<Result<PutResult, Trouble>>,
): Promise<Result<CommandOutput & { readonly set: PutResult }, Trouble>> {
  const read = await api('readPolicies', {})
  if (!read.ok) return read
  const base = expect ?? String(read.value.version)
  if (!/^[0-9]{1,9}$/.test(base)) return err(usage('`--expect` takes the number of a version: --expect 7'))
  const done = await change({ match: `"${base}"`, previous: read.value.previous })
  const present = read.value.version
  if (done.ok)
    return ok({
      ok: true,
      json: done.value,
      set: done.value,
      text: versionText(done.value, paint, done.value.active ? present : null),
    })
  if (done.error.code !== 'version_conflict') return done
  const todo = `look at \`countersign policy list\` and \`countersign policy diff VERSION --against ${base}\`, then make your change again on top of that`
  return err(
    trouble(
      'version_conflict',
      `nothing was changed: version ${base} is not in force${base === String(present) ? ' any more, because somebody else has just changed it' : `, version ${present} is`}`,
      todo,
    ),
  )
}

function versionText(
  set: Omit<Version, 'policy_count'> & {
    readonly activations?: readonly { at_ms: number; by: string }[]
  } & Partial<Pick<PutResult, 'warnings'>>,
  paint: Paint,
  /** The version that was in force before, if this one was just activated. */
  instead: number | null = null,
): string {
  const { version, active, digest, note, author, created_at_ms, activated_at_ms, activated_by } = set
  const last = activated_at_ms === null ? [] : [{ at_ms: activated_at_ms, by: activated_by ?? '' }]
  const rows = [
    ['digest', digest],
    ['created', `${time(created_at_ms)} by ${author}`],
    ...(set.activations ?? last).map(({ at_ms, by }) => ['put in force', `${time(at_ms)} by ${by}`]),
    ...(note === '' ? [] : [['note', note]]),
  ]
  const change =
    instead === null ? '' : instead === version ? ', as before' : `, replacing version ${instead}`
  return `version ${paint.bold(String(version))}  ${active ? paint.good('in force') : 'not in force'}${change}\n${columns(rows, '  ')}${warningLines(set.warnings ?? [], paint)}`
}

export const POLICY: readonly Command[] = [list, show, put, activate, rollback, diff]
