// A tenant's skills as they are kept: immutable versions with the code that was made of them, which of them is enabled, who changed that and
// why; and whose signature counts. A part of the TenantObject, so that a skill that is disabled is so for the very next call. It opens no
// package and runs nothing.

import { and, asc, count, desc, eq, ne } from 'drizzle-orm'
import { failure } from '../shared/failures.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Publisher, Skill, SkillState } from '../shared/skills.ts'
import type { CodeFile } from './skills/isolate.ts'
import type { Change, Database } from './tables/open.ts'
import { publishers, skillChanges, skillParts, skills } from './tables/tenant.ts'
import type { ToolStore } from './tool-store.ts'

/** What a call of it has to know. */
export type EnabledSkill = Pick<Skill, 'id' | 'version' | 'digest' | 'component' | 'modules'>
/** What a publisher put: made once, never changed. */
export type Published = {
  readonly about: Omit<Skill, 'state' | 'changes'>
  readonly component: Uint8Array
  readonly files: readonly CodeFile[]
}
export type StateChange = { readonly to: SkillState; readonly by: string; readonly reason: string }

/** Nothing leaves `revoked`. */
function mayMove({ state }: Skill, to: SkillState): Result<true> {
  if (state === 'revoked' && to !== 'revoked') return err(failure('conflict', 'the version was revoked; publish another one'))
  if (to === 'disabled' && state === 'quarantined') return err(failure('conflict', 'the version is not enabled'))
  return ok(true)
}

const ofVersion = (id: string, version: string) => and(eq(skills.id, id), eq(skills.version, version))

export class SkillStore {
  readonly #db: Database
  readonly #change: Change

  readonly #tools: ToolStore

  constructor(db: Database, change: Change, tools: ToolStore) {
    this.#db = db
    this.#change = change
    this.#tools = tools
  }

  /** The same package once more is the version that it made. */
  publish({ about, component, files }: Published): Result<Skill> {
    const { id, version, digest, manifest } = about
    const taken = this.taken(id, version, digest, manifest.publisher)
    if (!taken.ok) return taken
    const known = this.read(id, version)
    if (known !== undefined) return ok(known)
    this.#change(() => {
      const { publisher } = manifest
      this.#db.insert(skills).values({ id, version, publisher, digest, state: 'quarantined', about }).run()
      this.#keep(about.component.sha256, component)
      for (const { name, sha256 } of about.modules) this.#keep(sha256, files.find(([file]) => file === name)?.[1] ?? new Uint8Array())
    })
    return ok({ ...about, state: 'quarantined', changes: [] })
  }

  /** Whether this may be published: a name is its first publisher's, and a version is one package for good. */
  taken(id: string, version: string, digest: string, publisher: string): Result<Skill | undefined> {
    const versions = this.#db.select().from(skills).where(eq(skills.id, id)).all()
    const owner = versions.find((row) => row.publisher !== publisher)?.publisher
    if (owner !== undefined) return err(failure('skill_conflict', `the skill \`${id}\` is the publisher \`${owner}\`’s`))
    const known = versions.find((row) => row.version === version)
    if (known !== undefined)
      return known.digest === digest
        ? ok(this.read(id, version))
        : err(failure('skill_conflict', `version ${version} of \`${id}\` is another package; publish this one under the next version`))
    if (versions.length >= LIMITS.skill_versions)
      return err(failure('limit_reached', `a skill has ${LIMITS.skill_versions} versions at the most`))
    const all = this.#db.selectDistinct({ id: skills.id }).from(skills).all().length
    return versions.length === 0 && all >= LIMITS.skills
      ? err(failure('limit_reached', `a tenant holds ${LIMITS.skills} skills at the most`))
      : ok(undefined)
  }

  list(): Skill[] {
    const rows = this.#db.select().from(skills).orderBy(asc(skills.id), asc(skills.version)).all()
    return rows.map(({ about, state }) => ({ ...about, state, changes: [] }))
  }

  read(id: string, version: string): Skill | undefined {
    const row = this.#db.select().from(skills).where(ofVersion(id, version)).get()
    if (row === undefined) return undefined
    const those = and(eq(skillChanges.id, id), eq(skillChanges.version, version))
    const rows = this.#db.select().from(skillChanges).where(those).orderBy(desc(skillChanges.seq)).limit(LIMITS.page).all()
    const changes = rows.map(({ from, to, by, at, reason }) => ({ from, to, by, at_ms: at, reason }))
    return { ...row.about, state: row.state, changes }
  }

  enabled(): EnabledSkill[] {
    const rows = this.#db.select().from(skills).where(eq(skills.state, 'enabled')).all()
    return rows.map(({ about: { id, version, digest, component, modules } }) => ({ id, version, digest, component, modules }))
  }

  /** Enabled, its tools are those that the skill has. */
  move(id: string, version: string, change: StateChange): Result<Skill> {
    const skill = this.read(id, version)
    if (skill === undefined) return err(failure('not_found', 'no such version of a skill'))
    const may = mayMove(skill, change.to)
    if (!may.ok || skill.state === change.to) return may.ok ? ok(skill) : may
    const write = () => this.#move(id, version, change)
    const done = change.to === 'enabled' ? this.#tools.enable(skill.manifest, skill.digest, change.by, write) : ok(this.#change(write))
    return done.ok ? ok(this.read(id, version) ?? skill) : done
  }

  /** One version is enabled at a time: the one before is disabled in the same moment. */
  #move(id: string, version: string, { to, by, reason }: StateChange): void {
    const others = to === 'enabled' ? and(eq(skills.id, id), ne(skills.version, version), eq(skills.state, 'enabled')) : undefined
    for (const { version: other } of others === undefined ? [] : this.#db.select().from(skills).where(others).all())
      this.#moved(id, other, { to: 'disabled', by, reason: `version ${version} was enabled` })
    this.#moved(id, version, { to, by, reason })
  }

  #moved(id: string, version: string, { to, by, reason }: StateChange): void {
    const from = this.#db.select().from(skills).where(ofVersion(id, version)).get()?.state
    if (from === undefined || from === to) return
    this.#db.update(skills).set({ state: to }).where(ofVersion(id, version)).run()
    this.#db.insert(skillChanges).values({ id, version, from, to, by, at: Date.now(), reason }).run()
  }

  /** The code of an enabled skill; undefined where none has this digest. */
  code(digest: string): CodeFile[] | undefined {
    const row = this.#db
      .select()
      .from(skills)
      .where(and(eq(skills.digest, digest), eq(skills.state, 'enabled')))
      .get()
    return row?.about.modules.map(({ name, sha256 }): CodeFile => [name, this.#whole(sha256)])
  }

  #keep(sha256: string, bytes: Uint8Array): void {
    for (let part = 0; part * LIMITS.skill_part_bytes < bytes.byteLength; part++) {
      const slice = bytes.subarray(part * LIMITS.skill_part_bytes, (part + 1) * LIMITS.skill_part_bytes)
      this.#db
        .insert(skillParts)
        .values({ sha256, part, bytes: Buffer.from(slice) })
        .onConflictDoNothing()
        .run()
    }
  }

  #whole(sha256: string): Uint8Array {
    const parts = this.#db.select().from(skillParts).where(eq(skillParts.sha256, sha256)).orderBy(asc(skillParts.part)).all()
    return Buffer.concat(parts.map(({ bytes }) => bytes))
  }

  // ── Publishers ──

  putPublisher(publisher: Publisher): Result<Publisher> {
    const held = this.#db.select({ n: count() }).from(publishers).get()?.n ?? 0
    const known = this.publishers().some(({ name }) => name === publisher.name)
    if (!known && held >= LIMITS.publishers)
      return err(failure('limit_reached', `a tenant lists ${LIMITS.publishers} publishers at the most`))
    this.#change(() => this.#db.insert(publishers).values(publisher).onConflictDoUpdate({ target: publishers.name, set: publisher }).run())
    return ok(publisher)
  }

  removePublisher(name: string): Result<{ done: true }> {
    if (!this.publishers().some((publisher) => publisher.name === name)) return err(failure('not_found', `no publisher \`${name}\``))
    this.#change(() => this.#db.delete(publishers).where(eq(publishers.name, name)).run())
    return ok({ done: true })
  }

  publishers(): Publisher[] {
    return this.#db.select().from(publishers).orderBy(asc(publishers.name)).all()
  }
}
