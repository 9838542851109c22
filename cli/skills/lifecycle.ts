// Commands for skills at the edge: publish, list and show versions; enable, disable, revoke and
// roll them back.

import { statSync } from 'node:fs'
import { BODY_BOUNDS, parseJson } from '../../shared/bytes/json.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Output } from '../../shared/routes/client.ts'
import { type Skill, SkillPackage, toolName } from '../../shared/wire/skills.ts'
import type { Command, CommandOutput, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { readBytes } from '../shell/files.ts'
import { parseInput } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'
import { packagePath } from './build.ts'
import { publisherOf, sourcesOf } from './package.ts'
import { signerOf } from './publisher-key.ts'
import { changedIn, readSkill } from './source-folder.ts'

const ID = { ID: 'the skill’s id' } as const
const VERSION = { ...ID, VERSION: 'the version' } as const
const WHY = { reason: { value: 'TEXT', what: 'why, for the record' } } as const
const STATES = { quarantined: 'warn', enabled: 'good', disabled: 'dim', revoked: 'bad' } as const

const publish = command({
  words: ['skill', 'publish'],
  args: { 'PACKAGE?': 'the package, or the skill’s folder (default: this folder)' },
  flags: {
    pin: {
      value: 'PUBLIC',
      what: 'if its publisher is unknown, add the publisher with this public key, which they gave you',
    },
  },
  does: 'Publish a version of a skill: the edge checks and transpiles it and keeps it in quarantine until another operator enables it',
  key: 'operator',
  examples: ['countersign skill publish', 'countersign skill publish hello/dist/hello-1.0.0.skill.json'],
  async run({ args: { PACKAGE: given = '.' }, flags: { pin }, api, paint, live }) {
    const isFolder = statSync(given, { throwIfNoEntry: false })?.isDirectory() === true
    const path = isFolder ? builtPackage(given) : ok(given)
    if (!path.ok) return path
    const packed = readPackage(path.value)
    if (!packed.ok) return packed
    const changed = isFolder ? changedIn(given, sourcesOf(packed.value)) : []
    const done = await api('publishSkill', { body: packed.value, query: pin === undefined ? {} : { pin } })
    if (changed.length > 0) live().note(staleNote(path.value, given, changed))
    if (!done.ok)
      return err(
        done.error.code === 'publisher_unknown'
          ? { ...done.error, todo: adviceForUnknownPublisher(packed.value, pin) }
          : done.error,
      )
    const { id, version, state, denied } = done.value
    const shown = skillOutput(done.value, paint)
    const next = `next, another operator runs: ${paint.bold(`countersign skill enable ${inline(id)} ${inline(version)}`)}\n`
    return state === 'quarantined' && denied.length === 0
      ? ok({ ...shown, text: shown.text + next })
      : ok(shown)
  },
})

/** The advice for an unknown publisher. */
function adviceForUnknownPublisher(packed: SkillPackage, pin: string | undefined): string | undefined {
  const publisher = publisherOf(packed)
  if (publisher === undefined) return undefined
  const signer = signerOf(publisher)
  const key = signer.ok && signer.value.kid === packed.signatures[0]?.keyid ? signer.value.x : 'KEY'
  const pinning = pin === undefined ? `, or publish with \`--pin ${key}\`` : ''
  return `if \`${publisher}\` has confirmed to you that this key is theirs, run \`countersign skill publishers put ${publisher} ${key}\`${pinning}`
}

const staleNote = (path: string, folder: string, changed: readonly string[]): string =>
  `\`${path}\` is older than ${changed.map((one) => `\`${one}\``).join(', ')}; run \`countersign skill build ${folder}\` to build it again, and raise the version if it is already published`

function builtPackage(folder: string): Result<string, Trouble> {
  const skill = readSkill(folder)
  return skill.ok ? ok(packagePath(folder, skill.value.manifest)) : skill
}

function readPackage(path: string): Result<SkillPackage, Trouble> {
  if (statSync(path, { throwIfNoEntry: false }) === undefined)
    return err(usage(`there is no package \`${path}\`; \`countersign skill build\` builds it`))
  const bytes = readBytes(path, LIMITS.skill_package_bytes)
  if (!bytes.ok) return bytes
  const json = parseJson(bytes.value, { ...BODY_BOUNDS, bytes: LIMITS.skill_package_bytes })
  return json.ok
    ? parseInput(SkillPackage, json.value, `\`${path}\``)
    : err(usage(`\`${path}\` is not a skill package: ${json.error.detail}`))
}

type SkillVersions = Output<'listSkills'>['items']

/** All versions, of all skills or of one, from as many pages as needed. */
async function versions(api: Api, query: { id?: string }): Promise<Result<SkillVersions, Trouble>> {
  const all: SkillVersions = []
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
  args: { ...ID, 'VERSION?': 'the version (default: the enabled one, or else the latest)' },
  flags: {},
  does: 'Show a version of a skill: its capabilities, imports, tools, files, and who changed its state',
  key: 'operator',
  async run({ args: { ID: id, VERSION: given }, api, paint }) {
    const version = given === undefined ? await defaultVersion(id, api) : ok(given)
    if (!version.ok) return version
    const skill = await api('readSkill', { params: { id, version: version.value } })
    return skill.ok ? ok(skillOutput(skill.value, paint)) : skill
  },
})

async function defaultVersion(id: string, api: Api): Promise<Result<string, Trouble>> {
  const skills = await versions(api, { id })
  if (!skills.ok) return skills
  const latest = skills.value.toSorted((a, b) => b.published_at_ms - a.published_at_ms)
  const found = latest.find(({ state }) => state === 'enabled') ?? latest[0]
  return found === undefined
    ? err(usage(`there is no skill \`${id}\`; \`countersign skill list\` lists all skills`))
    : ok(found.version)
}

const stateCommand = (
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
      return moved.ok ? ok(skillOutput(moved.value, paint)) : moved
    },
  })

const enable = stateCommand(
  'enable',
  'enableSkill',
  'Enable a version that somebody else published, instead of the one enabled now; its tools can then be called',
)
const disable = stateCommand(
  'disable',
  'disableSkill',
  'Disable a version: its tools can no longer be called',
)
const revoke = stateCommand(
  'revoke',
  'revokeSkill',
  'Revoke a version permanently: nobody can enable it again',
)

const rollBack = command({
  words: ['skill', 'rollback'],
  args: ID,
  flags: WHY,
  does: 'Enable the version that was enabled before the current one',
  key: 'operator',
  async run({ args: { ID: id }, flags: { reason = '' }, api, paint }) {
    const read = await api('readRollBack', { params: { id } })
    if (!read.ok) return read
    const moved = await api('rollBackSkill', { params: { id }, body: { ...read.value, reason } })
    return moved.ok ? ok(skillOutput(moved.value, paint)) : moved
  },
})

/** The details of a version that an operator reviews before enabling it. */
function skillOutput(skill: Skill, paint: Paint): CommandOutput {
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
      `by ${contents.provenance.builder}, containing ${contents.parts.map(({ name, version }) => `${name} ${version}`).join(', ') || 'no third-party parts'}`,
    ],
    ['imports', imports.join(', ') || 'nothing'],
    ...Object.entries(manifest.capabilities).map(([name, granted]) => [
      `may ${name}`,
      granted === true ? 'yes' : JSON.stringify(granted),
    ]),
    ...manifest.tools.map(({ name, description }) => ['tool', `${toolName(id, name)}: ${description}`]),
    ...warnings.map(({ code, detail }) => ['warning', `${detail} (${code})`]),
    ['runs', `${modules.length} files, ${modules.reduce((sum, { bytes }) => sum + bytes, 0)} bytes`],
    ...changes.map(({ from, to, by, at_ms, reason }) => [
      'change',
      `${from} → ${to} by ${by}, ${time(at_ms)}${reason === '' ? '' : `: ${reason}`}`,
    ]),
  ]
  const head = `skill ${paint.bold(inline(id))} ${inline(version)}  ${paint[STATES[state]](state)}\n`
  return { ok: true, json: skill, text: `${head}${columns(rows, '  ')}` }
}

export const LIFECYCLE: readonly Command[] = [publish, list, show, enable, disable, revoke, rollBack]
