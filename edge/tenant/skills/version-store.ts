// A tenant's skills: immutable versions with their code, and which of them is enabled. Each change
// is stored together with its journal entry. A part of the TenantObject, so that the next call sees
// that a skill is disabled.

import { and, asc, eq, gt, inArray, ne, or, sql } from 'drizzle-orm'
import { failure } from '../../../shared/failures.ts'
import { LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type {
  RollBack,
  Skill,
  SkillEntry,
  SkillManifest,
  SkillPackage,
  SkillState,
} from '../../../shared/wire/skills.ts'
import { SKILL_TYPE, toolNames } from '../../../shared/wire/skills.ts'
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import type { Change, Database } from '../../platform/database.ts'
import type { CodeFile } from '../../skills/execution/isolate.ts'
import { skillParts, skills, skillTools } from '../tables.ts'
import type { ToolStore } from '../tool-store.ts'
import type { DeniedParts } from './denied-part-store.ts'
import type { SkillJournal } from './journal-store.ts'

/** A version in a list. */
export type ListedSkill = Omit<Skill, 'manifest' | 'modules' | 'contents' | 'changes'> & {
  readonly manifest: Pick<SkillManifest, 'description' | 'publisher'>
}
/** A published version: stored once, never changed. */
export type Publication = {
  readonly about: Omit<Skill, 'state' | 'changes' | 'denied'>
  /** The signed bytes. */
  readonly payload: Uint8Array
  readonly files: readonly CodeFile[]
}
/** Counts the code of all versions towards the tenant's quota, if it fits. */
export type HoldCode = (bytes: number) => Result<true>
/** The states that a version can move to: never back to quarantine. */
export type TargetState = Exclude<SkillState, 'quarantined'>
export type StateChange = { readonly to: TargetState; readonly by: string; readonly reason: string }

/** Nothing leaves `revoked`. */
function checkMove({ state }: Skill, to: TargetState): Result<true> {
  if (state === 'revoked' && to !== 'revoked')
    return err(failure('conflict', 'the version was revoked; publish another one'))
  if (to === 'disabled' && state === 'quarantined')
    return err(failure('conflict', 'the version is not enabled'))
  return ok(true)
}

const MOVED = {
  enabled: 'skill.enabled',
  disabled: 'skill.disabled',
  revoked: 'skill.revoked',
} as const satisfies Record<TargetState, SkillEntry>

/** The line of enabled versions: enabling an earlier version again removes those after it. */
function inLine(enabled: readonly string[]): string[] {
  const line: string[] = []
  for (const version of enabled) {
    if (line.includes(version)) line.length = line.indexOf(version)
    line.push(version)
  }
  return line
}

const [COMPONENT, MODULES] = [
  sql<string>`${skills.about} -> '$.component'`,
  sql<string>`${skills.about} -> '$.modules'`,
]

const ofVersion = (id: string, version: string) => and(eq(skills.id, id), eq(skills.version, version))

export class SkillStore {
  readonly #db: Database
  readonly #change: Change
  readonly #tools: ToolStore
  readonly #journal: SkillJournal
  readonly #denied: DeniedParts

  constructor(
    db: Database,
    change: Change,
    tools: ToolStore,
    { journal, denied }: { readonly journal: SkillJournal; readonly denied: DeniedParts },
  ) {
    this.#db = db
    this.#change = change
    this.#tools = tools
    this.#journal = journal
    this.#denied = denied
  }

  /**
   * Publishes together with the writes of `alsoWrite`. The same package again returns the existing
   * version.
   */
  publish({ about, payload, files }: Publication, holdCode: HoldCode, alsoWrite: () => void): Result<Skill> {
    const { id, version, digest, manifest } = about
    const taken = this.taken(manifest, digest)
    if (!taken.ok) return taken
    const known = this.read(id, version)
    if (known !== undefined) return ok(known)
    const unwanted = this.#denied.among(about.contents.parts)
    if (unwanted.length > 0) return err(failure('part_denied', unwanted.join('; ')))
    const parts = this.#notKept([
      [digest, payload],
      ...about.modules.map(
        ({ name, sha256 }) =>
          [sha256, files.find(([file]) => file === name)?.[1] ?? new Uint8Array()] as const,
      ),
    ])
    const added = [...parts.values()].reduce((sum, bytes) => sum + bytes.byteLength, 0)
    const room = holdCode(this.#codeBytes() + added)
    if (!room.ok) return room
    this.#change(() => {
      const { publisher } = manifest
      alsoWrite()
      this.#db.insert(skills).values({ id, version, publisher, digest, state: 'quarantined', about }).run()
      for (const name of toolNames(manifest))
        this.#db.insert(skillTools).values({ name, skill: id }).onConflictDoNothing().run()
      for (const [sha256, bytes] of parts) this.#keep(sha256, bytes)
      const details = {
        digest,
        component: about.component.sha256,
        key: about.signed_by,
        by: about.published_by,
      }
      this.#journal.append('skill.published', { publisher, skill: id, version }, details)
    })
    return ok({ ...about, state: 'quarantined', changes: [], denied: [] })
  }

  /**
   * Whether a package may be published: the name of a skill or tool belongs to its first publisher,
   * and a version is one package forever.
   */
  taken(manifest: SkillManifest, digest: string): Result<Skill | undefined> {
    const { id, version, publisher } = manifest
    const versions = this.#versions(id)
    const owner = versions.find((row) => row.publisher !== publisher)?.publisher
    if (owner !== undefined)
      return err(failure('skill_conflict', `the skill \`${id}\` belongs to the publisher \`${owner}\``))
    const known = versions.find((row) => row.version === version)
    if (known !== undefined)
      return known.digest === digest
        ? ok(this.read(id, version))
        : err(
            failure(
              'skill_conflict',
              `version ${version} of \`${id}\` exists with other contents; publish this package as the next version`,
            ),
          )
    const those = and(inArray(skillTools.name, toolNames(manifest)), ne(skillTools.skill, id))
    const claimed = this.#db.select().from(skillTools).where(those).limit(1).get()
    if (claimed !== undefined)
      return err(
        failure('skill_conflict', `the tool \`${claimed.name}\` belongs to the skill \`${claimed.skill}\``),
      )
    if (versions.length >= LIMITS.skill_versions)
      return err(failure('limit_reached', `a skill can have at most ${LIMITS.skill_versions} versions`))
    const all = this.#db.selectDistinct({ id: skills.id }).from(skills).all().length
    return versions.length === 0 && all >= LIMITS.skills
      ? err(failure('limit_reached', `a tenant can have at most ${LIMITS.skills} skills`))
      : ok(undefined)
  }

  /** Journals that the skill's storage, which is in its SkillObject, was cleared. */
  cleared(id: string, details: Record<string, unknown>): void {
    const publisher = this.#db.select().from(skills).where(eq(skills.id, id)).limit(1).get()?.publisher ?? ''
    this.#journal.append('skill.cleared', { publisher, skill: id }, details)
  }

  /** Only short columns: `about` may be long. */
  #versions(id: string) {
    const { version, publisher, digest, state } = skills
    return this.#db.select({ version, publisher, digest, state }).from(skills).where(eq(skills.id, id)).all()
  }

  /** One page after `skill@version`, of all skills or of one, without the long fields. */
  list(after: string, of?: string): ListedSkill[] {
    const [id = '', version = ''] = after.split('@')
    const behind = or(gt(skills.id, id), and(eq(skills.id, id), gt(skills.version, version)))
    const wanted = and(behind, of === undefined ? undefined : eq(skills.id, of))
    const rows = this.#db
      .select()
      .from(skills)
      .where(wanted)
      .orderBy(asc(skills.id), asc(skills.version))
      .limit(LIMITS.page)
      .all()
    const unwanted = this.#denied.all()
    return rows.map(({ about: { manifest, modules: _, contents, ...about }, state }) => ({
      ...about,
      manifest: { description: manifest.description, publisher: manifest.publisher },
      state,
      denied: this.#denied.among(contents.parts, unwanted),
    }))
  }

  read(id: string, version: string): Skill | undefined {
    const row = this.#db.select().from(skills).where(ofVersion(id, version)).get()
    if (row === undefined) return undefined
    const { about, state } = row
    return {
      ...about,
      state,
      changes: this.#journal.changesOf(id, version),
      denied: this.#denied.among(about.contents.parts),
    }
  }

  /**
   * Extracts only the needed fields in SQL: `about` may be long, and every change of the directory
   * reads this.
   */
  enabled(): EnabledSkill[] {
    const { id, version, digest } = skills
    const rows = this.#db
      .select({ id, version, digest, component: COMPONENT, modules: MODULES })
      .from(skills)
      .where(eq(skills.state, 'enabled'))
    return rows.all().map(({ component, modules, ...skill }) => ({
      ...skill,
      component: JSON.parse(component),
      modules: JSON.parse(modules),
    }))
  }

  /** Changes the state of a version. Enabling it replaces the tools of its skill. */
  move(id: string, version: string, change: StateChange): Result<Skill> {
    const skill = this.read(id, version)
    if (skill === undefined) return err(failure('not_found', 'no such version of a skill'))
    const may = checkMove(skill, change.to)
    if (!may.ok || skill.state === change.to) return may.ok ? ok(skill) : may
    if (change.to === 'enabled' && skill.denied.length > 0)
      return err(failure('part_denied', skill.denied.join('; ')))
    const write = () => this.#move(id, version, change)
    const done =
      change.to === 'enabled'
        ? this.#tools.enable(skill.manifest, skill.digest, change.by, write)
        : ok(this.#change(write))
    return done.ok ? ok(this.read(id, version) ?? skill) : done
  }

  /** Enabling a version disables the enabled one in the same transaction. */
  #move(id: string, version: string, { to, by, reason }: StateChange): void {
    const others =
      to === 'enabled'
        ? and(eq(skills.id, id), ne(skills.version, version), eq(skills.state, 'enabled'))
        : undefined
    for (const { version: other } of others === undefined
      ? []
      : this.#db.select().from(skills).where(others).all())
      this.#moved(id, other, { to: 'disabled', by, reason: `version ${version} was enabled` })
    this.#moved(id, version, { to, by, reason })
  }

  #moved(id: string, version: string, { to, by, reason }: StateChange): void {
    const row = this.#db.select().from(skills).where(ofVersion(id, version)).get()
    if (row === undefined || row.state === to) return
    const { publisher, digest, state: from } = row
    this.#db.update(skills).set({ state: to }).where(ofVersion(id, version)).run()
    this.#journal.append(MOVED[to], { publisher, skill: id, version }, { digest, from, to, by, reason })
  }

  /** Revokes all versions that the key signed. Must run in the transaction that revokes the key. */
  revokeSigned(kid: string, change: Omit<StateChange, 'to'>): void {
    const signed = eq(sql`${skills.about} ->> '$.signed_by'`, kid)
    for (const { id, version } of this.#db
      .select({ id: skills.id, version: skills.version })
      .from(skills)
      .where(signed)
      .all())
      this.#moved(id, version, { ...change, to: 'revoked' })
  }

  /**
   * The enabled version and the one enabled before it; if none is enabled, the one before the last.
   */
  before(id: string): Result<RollBack> {
    const versions = this.#versions(id)
    if (versions.length === 0) return err(failure('not_found', `no skill \`${id}\``))
    const line = inLine(this.#journal.enabledOf(id)).slice(0, -1)
    const earlier = line.findLast((version) =>
      versions.some((row) => row.version === version && row.state !== 'revoked'),
    )
    const from = versions.find(({ state }) => state === 'enabled')?.version ?? null
    return earlier === undefined
      ? err(failure('conflict', `no earlier version of \`${id}\` can be enabled again`))
      : ok({ from, to: earlier })
  }

  /** Requires the versions that were read before, so that two clicks don't roll back twice. */
  rollBack(id: string, { from, to }: RollBack, reason: Omit<StateChange, 'to'>): Result<Skill> {
    const now = this.before(id)
    if (!now.ok) return now
    const word = (version: string | null): string => version ?? 'none'
    if (now.value.from !== from || now.value.to !== to)
      return err(
        failure(
          'conflict',
          `the rollback from ${word(from)} to ${to} is no longer possible: ${word(now.value.from)} is enabled, and a rollback would enable ${now.value.to}; read the versions again`,
        ),
      )
    return this.move(id, to, { ...reason, to: 'enabled' })
  }

  /** The package as published, so that its signature can be verified. */
  package(id: string, version: string): SkillPackage | undefined {
    const skill = this.read(id, version)
    if (skill === undefined) return undefined
    const payload = Buffer.from(this.#whole(skill.digest)).toString('base64')
    return {
      payloadType: SKILL_TYPE,
      payload,
      signatures: [{ keyid: skill.signed_by, sig: skill.signature }],
    }
  }

  /** The code of the enabled version with this digest, if there is one. */
  code(digest: string): CodeFile[] | undefined {
    const row = this.#db
      .select()
      .from(skills)
      .where(and(eq(skills.digest, digest), eq(skills.state, 'enabled')))
      .get()
    return row?.about.modules.map(({ name, sha256 }): CodeFile => [name, this.#whole(sha256)])
  }

  /** Reads only the lengths: SQLite does not load the values. */
  #codeBytes(): number {
    const bytes = sql<number>`coalesce(sum(length(${skillParts.bytes})), 0)`
    return this.#db.select({ bytes }).from(skillParts).get()?.bytes ?? 0
  }

  /** The parts, by digest, that no earlier version has. */
  #notKept(parts: ReadonlyArray<readonly [string, Uint8Array]>): Map<string, Uint8Array> {
    const isKept = (sha256: string): boolean =>
      this.#db
        .select({ part: skillParts.part })
        .from(skillParts)
        .where(eq(skillParts.sha256, sha256))
        .limit(1)
        .get() !== undefined
    return new Map(parts.filter(([sha256]) => !isKept(sha256)))
  }

  #keep(sha256: string, bytes: Uint8Array): void {
    for (let part = 0; part * LIMITS.skill_part_bytes < bytes.byteLength; part++) {
      const slice = bytes.subarray(part * LIMITS.skill_part_bytes, (part + 1) * LIMITS.skill_part_bytes)
      this.#db
        .insert(skillParts)
        .values({ sha256, part, bytes: Buffer.from(slice) })
        .run()
    }
  }

  #whole(sha256: string): Uint8Array {
    const parts = this.#db
      .select()
      .from(skillParts)
      .where(eq(skillParts.sha256, sha256))
      .orderBy(asc(skillParts.part))
      .all()
    return Buffer.concat(parts.map(({ bytes }) => bytes))
  }
}
