// What others ask a TenantObject of skills and publishers: `tenantSkills(env, tenant).publish(…)`.
// What the log has to know of it is told at least once, by the object's alarm. What reaches here
// has been checked, but for what may have changed since.

import { RpcTarget } from 'cloudflare:workers'
import type { JournalEntry } from '../../../shared/evidence/journal.ts'
import { failure } from '../../../shared/failures.ts'
import type { Result } from '../../../shared/result.ts'
import { err } from '../../../shared/result.ts'
import type { Publisher } from '../../../shared/wire/publishers.ts'
import type {
  DeniedPart,
  DeniedPartSpec,
  RollBack,
  Skill,
  SkillManifest,
  SkillPackage,
} from '../../../shared/wire/skills.ts'
import type { Env } from '../../bindings.ts'
import { logObject } from '../../bindings.ts'
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import type { ListedKeys } from '../../directory/gatekeeper.ts'
import { SKILLS } from '../../log/log-object.ts'
import type { Change, Database } from '../../platform/database.ts'
import type { CodeFile } from '../../skills/execution/isolate.ts'
import type { ToolStore } from '../tool-store.ts'
import { DeniedParts } from './denied-part-store.ts'
import { SkillJournal } from './journal-store.ts'
import { PublisherStore } from './publisher-store.ts'
import type { ListedSkill, Published, StateChange } from './version-store.ts'
import { SkillStore } from './version-store.ts'

const LOG_DELAY_MS = 200
const RETRY_MS = 2_000

/**
 * The key that signed a package, and whether it is to be pinned where nobody knows the publisher.
 */
type Signed = { readonly x: string; readonly pin: boolean }
type Said = Omit<StateChange, 'to'>

export class SkillDesk extends RpcTarget {
  readonly #skills: SkillStore
  readonly #publishers: PublisherStore
  readonly #journal: SkillJournal
  readonly #denied: DeniedParts
  readonly #env: Env
  readonly #tenant: string
  readonly #arm: (at: number) => void

  constructor(
    db: Database,
    change: Change,
    tools: ToolStore,
    { env, tenant, arm }: { env: Env; tenant: string; arm: (at: number) => void },
  ) {
    super()
    this.#journal = new SkillJournal(db)
    this.#denied = new DeniedParts(db, change, this.#journal)
    this.#skills = new SkillStore(db, change, tools, { journal: this.#journal, denied: this.#denied })
    this.#publishers = new PublisherStore(db, change, this.#journal)
    this.#env = env
    this.#tenant = tenant
    this.#arm = arm
  }

  // ── Versions ──

  /** Whether it may be published, and what it is already. */
  async known(
    manifest: SkillManifest,
    digest: string,
    { x, pin }: Signed,
  ): Promise<Result<Skill | undefined>> {
    const counts = this.#publishers.counts(manifest.publisher, x, pin)
    return counts.ok ? this.#skills.taken(manifest, digest) : counts
  }

  async publish(published: Published, { x, pin }: Signed): Promise<Result<Skill>> {
    const { manifest, published_by: by } = published.about
    const { publisher } = manifest
    const counts = this.#publishers.counts(publisher, x, pin) // it may have been revoked meanwhile
    if (!counts.ok) return counts
    if (this.#publishers.has(x)) return this.#told(this.#skills.publish(published, () => undefined))
    const about = { ...published.about, pinned_by: by }
    return this.#told(
      this.#skills.publish({ ...published, about }, () => this.#publishers.pin(publisher, x, by)),
    )
  }

  /** A page of them, behind `skill@version`. */
  async list(after: string, of?: string): Promise<ListedSkill[]> {
    return this.#skills.list(after, of)
  }
  async read(id: string, version: string): Promise<Skill | undefined> {
    return this.#skills.read(id, version)
  }
  async package(id: string, version: string): Promise<SkillPackage | undefined> {
    return this.#skills.package(id, version)
  }
  /** What a call of it has to know: `undefined` where it is not enabled any more. */
  async code(digest: string): Promise<CodeFile[] | undefined> {
    return this.#skills.code(digest)
  }

  async move(id: string, version: string, change: StateChange): Promise<Result<Skill>> {
    const skill = this.#skills.read(id, version)
    if (skill === undefined) return err(failure('not_found', 'no such version of a skill'))
    if (change.to === 'enabled' && skill.state === 'quarantined' && !this.#isListed(skill))
      return err(
        failure(
          'conflict',
          `the key \`${skill.signed_by}\` that signed it is not on the list any more; publish it anew, signed with one that is`,
        ),
      )
    return this.#told(this.#skills.move(id, version, change))
  }

  /** What a rollback would do. */
  async before(id: string): Promise<Result<RollBack>> {
    return this.#skills.before(id)
  }
  async rollBack(id: string, wanted: RollBack, said: Said): Promise<Result<Skill>> {
    return this.#told(this.#skills.rollBack(id, wanted, said))
  }

  /** What it kept; `nth`: of its clearings, told once. */
  async cleared(id: string, nth: number, said: { by: string; keys: number; bytes: number }): Promise<void> {
    if (this.#journal.clearedOf(id) < nth) this.#told(this.#skills.cleared(id, { nth, ...said }))
  }

  #isListed({ manifest, signed_by }: Skill): boolean {
    const publisher = this.#publishers.all().find(({ name }) => name === manifest.publisher)
    return publisher?.keys.some(({ kid }) => kid === signed_by) === true
  }

  // ── Publishers ──

  async putPublisher(name: string, keys: readonly string[], by: string): Promise<Result<Publisher>> {
    return this.#told(this.#publishers.put(name, keys, by))
  }
  async removePublisher(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#told(this.#publishers.remove(name, by))
  }
  async publishers(): Promise<Publisher[]> {
    return this.#publishers.all()
  }
  async revokeKey(name: string, kid: string, { by, reason }: Said): Promise<Result<Publisher>> {
    const told = `the key \`${kid}\` that signed it was revoked: ${reason}`
    const signed = () => this.#skills.revokeSigned(kid, { by, reason: told })
    return this.#told(this.#publishers.revoke(name, kid, by, reason, signed))
  }

  // ── What no skill is to be made of ──

  async putDenied(wanted: readonly DeniedPartSpec[], by: string): Promise<Result<DeniedPart[]>> {
    return this.#told(this.#denied.put(wanted, by))
  }
  async denied(): Promise<DeniedPart[]> {
    return this.#denied.all()
  }

  // ── The journal ──

  async journal(after: number): Promise<JournalEntry[]> {
    return this.#journal.page(after)
  }

  /** The alarm is set in the same commit as what was done. */
  #told<T>(done: T): T {
    this.#arm(Date.now() + LOG_DELAY_MS)
    return done
  }

  /** When the alarm rings. */
  async tellLog(): Promise<void> {
    const rows = this.#journal.unlogged()
    const last = rows.at(-1)?.seq
    if (last === undefined) return
    const about = { call: '', agent: '', tool: '', took: 0, shadow: null }
    const leaves = rows.map(({ seq, hash, kind, at }) => ({ seq, hash, state: kind, at, ...about }))
    try {
      await logObject(this.#env, this.#tenant).append(SKILLS, leaves)
    } catch {
      return this.#arm(Date.now() + RETRY_MS)
    }
    this.#journal.logged(last)
    if (this.#journal.unlogged().length > 0) this.#arm(Date.now() + LOG_DELAY_MS)
  }

  // ── For the directory ──

  enabled(): EnabledSkill[] {
    return this.#skills.enabled()
  }
  listed(): ListedKeys[] {
    return this.#publishers.listed()
  }
}
