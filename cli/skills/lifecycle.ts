// Skills at the edge: published by their authors' packages, looked at, and enabled, disabled, revoked and rolled back by operators.

import { statSync } from 'node:fs'
import { BODY, parseJson } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output } from '../../shared/routes/client.ts'
import { type Skill, SkillPackage } from '../../shared/wire/skills.ts'
import type { Command, Output as Told, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { readBytes } from '../shell/files.ts'
import { fitting } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'
import { packageOf } from './build.ts'
import { publisherOf, sourcesOf } from './package.ts'
import { signerOf } from './publisher-key.ts'
import { changedIn, readSkill } from './source-folder.ts'

const ID = { ID: 'the skill’s id' } as const
const VERSION = { ...ID, VERSION: 'which version' } as const
const WHY = { reason: { value: 'TEXT', what: 'why, for the record' } } as const
const STATES = { quarantined: 'warn', enabled: 'good', disabled: 'dim', revoked: 'bad' } as const

const publish = command({
  words: ['skill', 'publish'],
  args: { 'PACKAGE?': 'the package, or the folder that it was built in; this one if you say nothing' },
  flags: {
    pin: {
      value: 'PUBLIC',
      what: 'put its publisher, who is on no list, on it with this public key, as they told it to you',
    },
  },
  does: 'Publish a version of a skill: the edge checks the package, makes what will run, and keeps it in quarantine until another operator enables it',
  key: 'operator',
  examples: ['countersign skill publish', 'countersign skill publish hello/dist/hello-1.0.0.skill.json'],
  async run({ args: { PACKAGE: given = '.' }, flags: { pin }, api, paint, live }) {
    const isFolder = statSync(given, { throwIfNoEntry: false })?.isDirectory() === true
    const path = isFolder ? built(given) : ok(given)
    if (!path.ok) return path
    const packed = readPackage(path.value)
    if (!packed.ok) return packed
    const changed = isFolder ? changedIn(given, sourcesOf(packed.value)) : []
    const done = await api('publishSkill', { body: packed.value, query: pin === undefined ? {} : { pin } })
    if (changed.length > 0) live().note(stale(path.value, given, changed))
    if (!done.ok)
      return err(
        done.error.code === 'publisher_unknown'
          ? { ...done.error, todo: toBeListed(packed.value, pin) }
          : done.error,
      )
    const { id, version, state, denied } = done.value
    const shown = told(done.value, paint)
    const next = `another operator enables it: ${paint.bold(`countersign skill enable ${inline(id)} ${inline(version)}`)}\n`
    return state === 'quarantined' && denied.length === 0
      ? ok({ ...shown, text: shown.text + next })
      : ok(shown)
  },
})

/** What an operator does who knows whose key it is. */
function toBeListed(packed: SkillPackage, pin: string | undefined): string | undefined {
  const publisher = publisherOf(packed)
  if (publisher === undefined) return undefined
  const signer = signerOf(publisher)
  const key = signer.ok && signer.value.kid === packed.signatures[0]?.keyid ? signer.value.x : 'KEY'
  const pinning = pin === undefined ? `, or publish with \`--pin ${key}\`` : ''
  return `put it on the list, where \`${publisher}\` told you that it is theirs: \`countersign skill publishers put ${publisher} ${key}\`${pinning}`
}

const stale = (path: string, folder: string, changed: readonly string[]): string =>
  `\`${path}\` holds what was built, and ${changed.map((one) => `\`${one}\``).join(', ')} changed since: \`countersign skill build ${folder}\` builds anew; a version that is published stays as it is`

function built(folder: string): Result<string, Trouble> {
  const skill = readSkill(folder)
  return skill.ok ? ok(packageOf(folder, skill.value.manifest)) : skill
}

function readPackage(path: string): Result<SkillPackage, Trouble> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    return err(usage(`there is no package \`${path}\`; \`countersign skill build\` makes it`))
  const bytes = readBytes(path, LIMITS.skill_package_bytes)
  if (!bytes.ok) return bytes
  const json = parseJson(bytes.value, { ...BODY, bytes: LIMITS.skill_package_bytes })
  return json.ok
    ? fitting(SkillPackage, json.value, `\`${path}\``)
    : err(usage(`\`${path}\` is no package: ${json.error.detail}`))
}

type Listed = Output<'listSkills'>['items']

/** All of them, or all of one skill, whatever fits a page. */
async function versions(api: Api, query: { id?: string }): Promise<Result<Listed, Trouble>> {
  const all: Listed = []
  for (;;) {
    const last = all.at(-1)
    const page = await api('listSkills', {
      query: last === undefined ? query : { ...query, after: `${last.id}@${last.version}` },
    })
    if (!page.ok) return page
    all.push(...page.value.items)
    if (page.value.items.length < LIMITS.page) return ok(all)
  }
}

const list = command({
  words: ['skill', 'list'],
  args: {},
  flags: {},
  does: 'List all versions of all skills',
  key: 'operator',
  async run({ api, paint }) {
    const skills = await versions(api, {})
    if (!skills.ok) return skills
    const rows = skills.value.map(
      ({ id, version, state, component, imports, published_by, published_at_ms, denied }) => [
        id,
        version,
        state,
        String(component.bytes),
        imports.join(','),
        `${published_by}, ${time(published_at_ms)}`,
        denied.map((one) => `denied: ${one}`).join('; '),
      ],
    )
    return ok({
      ok: true,
      json: skills.value,
      text: listing(
        paint,
        ['skill', 'version', 'state', 'bytes', 'uses', 'published by', ''],
        rows,
        'no skills',
      ),
    })
  },
})

const show = command({
  words: ['skill', 'show'],
  args: { ...ID, 'VERSION?': 'which version; the enabled one if you say nothing, or else the latest' },
  flags: {},
  does: 'Show a version of a skill: what it may do, what it imports, what runs, and who changed its state',
  key: 'operator',
  async run({ args: { ID: id, VERSION: given }, api, paint }) {
    const version = given === undefined ? await shownVersion(id, api) : ok(given)
    if (!version.ok) return version
    const skill = await api('readSkill', { params: { id, version: version.value } })
    return skill.ok ? ok(told(skill.value, paint)) : skill
  },
})

async function shownVersion(id: string, api: Api): Promise<Result<string, Trouble>> {
  const skills = await versions(api, { id })
  if (!skills.ok) return skills
  const latest = skills.value.toSorted((a, b) => b.published_at_ms - a.published_at_ms)
  const found = latest.find(({ state }) => state === 'enabled') ?? latest[0]
  return found === undefined
    ? err(usage(`there is no skill \`${id}\`; \`countersign skill list\` shows them`))
    : ok(found.version)
}

const moving = (
  word: 'enable' | 'disable' | 'revoke',
  route: 'enableSkill' | 'disableSkill' | 'revokeSkill',
  does: string,
) =>
  command({
    words: ['skill', word],
    args: VERSION,
    flags: WHY,
    does,
    key: 'operator',
    async run({ args: { ID: id, VERSION: version }, flags: { reason = '' }, api, paint }) {
      const moved = await api(route, { params: { id, version }, body: { reason } })
      return moved.ok ? ok(told(moved.value, paint)) : moved
    },
  })

const enable = moving(
  'enable',
  'enableSkill',
  'Enable a version that somebody else published, in place of the one that is: its tools can be called',
)
const disable = moving('disable', 'disableSkill', 'Disable a version: its tools can’t be called from then on')
const revoke = moving('revoke', 'revokeSkill', 'Revoke a version, for good: nobody can enable it again')

const rollBack = command({
  words: ['skill', 'rollback'],
  args: ID,
  flags: WHY,
  does: 'Enable the version again that was enabled before the one that is',
  key: 'operator',
  async run({ args: { ID: id }, flags: { reason = '' }, api, paint }) {
    const read = await api('readRollBack', { params: { id } })
    if (!read.ok) return read
    const moved = await api('rollBackSkill', { params: { id }, body: { ...read.value, reason } })
    return moved.ok ? ok(told(moved.value, paint)) : moved
  },
})

/** What an operator looks at before they enable it. */
function told(skill: Skill, paint: Paint): Told {
  const {
    id,
    version,
    state,
    digest,
    manifest,
    component,
    imports,
    modules,
    contents,
    warnings,
    denied,
    signed_by,
    changes,
  } = skill
  const rows = [
    ...denied.map((one) => ['denied', one]),
    ['digest', digest],
    ['component', `${component.bytes} bytes, sha256 ${component.sha256}`],
    ['signed', `by ${manifest.publisher}, ${signed_by}`],
    ['published', `by ${skill.published_by}, ${time(skill.published_at_ms)}`],
    [
      'built',
      `by ${contents.provenance.builder}, of ${contents.parts.map(({ name, version }) => `${name} ${version}`).join(', ') || 'no parts'}`,
    ],
    ['imports', imports.join(', ') || 'nothing'],
    ...Object.entries(manifest.capabilities).map(([name, granted]) => [
      `may ${name}`,
      granted === true ? 'yes' : JSON.stringify(granted),
    ]),
    ...manifest.tools.map(({ name, description }) => ['tool', `${id}.${name}: ${description}`]),
    ...warnings.map(({ code, detail }) => ['look', `${detail} (${code})`]),
    ['runs', `${modules.length} files, ${modules.reduce((sum, { bytes }) => sum + bytes, 0)} bytes`],
    ...changes.map(({ from, to, by, at_ms, reason }) => [
      'was',
      `${from}, made ${to} by ${by}, ${time(at_ms)}${reason === '' ? '' : `: ${reason}`}`,
    ]),
  ]
  const head = `skill ${paint.bold(inline(id))} ${inline(version)}  ${paint[STATES[state]](state)}\n`
  return { ok: true, json: skill, text: `${head}${columns(rows, '  ')}` }
}

export const PUBLISHED: readonly Command[] = [publish, list, show, enable, disable, revoke, rollBack]
