// The TenantObject's RPC target for skills and publishers: `tenantSkills(env, tenant).publish(…)`.
// Callers have checked packages; state that may have changed since is checked again here.

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
import type { EnabledSkill } from '../../directory/enabled-skill.ts'
import type { ListedKeys } from '../../directory/gatekeeper.ts'
import type { Change, Database } from '../../platform/database.ts'
import type { CodeFile } from '../../skills/execution/isolate.ts'
import type { LogDelivery } from '../log-delivery.ts'
import type { ToolStore } from '../tool-store.ts'
import { DeniedParts } from './denied-part-store.ts'
import type { SkillJournal } from './journal-store.ts'
import { PublisherStore } from './publisher-store.ts'
import type { HoldCode, ListedSkill, Publication, StateChange } from './version-store.ts'
import { SkillStore } from './version-store.ts'

/** The key that signed a package, and whether to pin it if the publisher is new. */
type Signed = { readonly x: string; readonly pin: boolean }
type ChangeReason = Omit<StateChange, 'to'>

export class SkillRegistry extends RpcTarget {
  readonly #skills: SkillStore
  readonly #publishers: PublisherStore
  readonly #journal: SkillJournal
  readonly #denied: DeniedParts
  readonly #delivery: LogDelivery
  readonly #roomForCode: () => Promise<HoldCode>

  constructor(
    db: Database,
    change: Change,
    tools: ToolStore,
    journal: SkillJournal,
    delivery: LogDelivery,
    roomForCode: () => Promise<HoldCode>,
  ) {
    super()
    this.#journal = journal
    this.#denied = new DeniedParts(db, change, journal)
    this.#skills = new SkillStore(db, change, tools, { journal, denied: this.#denied })
    this.#publishers = new PublisherStore(db, change, journal)
    this.#delivery = delivery
    this.#roomForCode = roomForCode
  }

  // ── Versions ──

  /** Checks whether a package may be published. Returns the version if it exists already. */
  async known(
    manifest: SkillManifest,
    digest: string,
    { x, pin }: Signed,
  ): Promise<Result<Skill | undefined>> {
    const counts = this.#publishers.counts(manifest.publisher, x, pin)
    return counts.ok ? this.#skills.taken(manifest, digest) : counts
  }

  async publish(published: Publication, { x, pin }: Signed): Promise<Result<Skill>> {
    const { manifest, published_by: by } = published.about
    const { publisher } = manifest
    const holdCode = await this.#roomForCode()
    const counts = this.#publishers.counts(publisher, x, pin) // the key may have been revoked since the first check
    if (!counts.ok) return counts
    if (this.#publishers.has(x))
      return this.#delivery.soon(this.#skills.publish(published, holdCode, () => undefined))
    const about = { ...published.about, pinned_by: by }
    return this.#delivery.soon(
      this.#skills.publish({ ...published, about }, holdCode, () => this.#publishers.pin(publisher, x, by)),
    )
  }

  /** One page after `skill@version`. */
  async list(after: string, of?: string): Promise<ListedSkill[]> {
    return this.#skills.list(after, of)
  }
  async read(id: string, version: string): Promise<Skill | undefined> {
    return this.#skills.read(id, version)
  }
  async package(id: string, version: string): Promise<SkillPackage | undefined> {
    return this.#skills.package(id, version)
  }
  /** The code of an enabled version, or `undefined` if it is no longer enabled. */
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
          `the key \`${skill.signed_by}\` that signed it is no longer listed; publish the package again, signed with a listed key`,
        ),
      )
    return this.#delivery.soon(this.#skills.move(id, version, change))
  }

  /** The version that a rollback would disable now, and the one that it would enable. */
  async before(id: string): Promise<Result<RollBack>> {
    return this.#skills.before(id)
  }
  async rollBack(id: string, wanted: RollBack, reason: ChangeReason): Promise<Result<Skill>> {
    return this.#delivery.soon(this.#skills.rollBack(id, wanted, reason))
  }

  /** Journals a clearing of the skill's storage, once: `nth` is its number. */
  async cleared(
    id: string,
    nth: number,
    details: { by: string; keys: number; bytes: number },
  ): Promise<void> {
    if (this.#journal.clearedOf(id) < nth) this.#delivery.soon(this.#skills.cleared(id, { nth, ...details }))
  }

  #isListed({ manifest, signed_by }: Skill): boolean {
    const publisher = this.#publishers.all().find(({ name }) => name === manifest.publisher)
    return publisher?.keys.some(({ kid }) => kid === signed_by) === true
  }

  // ── Publishers ──

  async putPublisher(name: string, keys: readonly string[], by: string): Promise<Result<Publisher>> {
    return this.#delivery.soon(this.#publishers.put(name, keys, by))
  }
  async removePublisher(name: string, by: string): Promise<Result<{ done: true }>> {
    return this.#delivery.soon(this.#publishers.remove(name, by))
  }
  async publishers(): Promise<Publisher[]> {
    return this.#publishers.all()
  }
  async revokeKey(name: string, kid: string, { by, reason }: ChangeReason): Promise<Result<Publisher>> {
    const why = `the key \`${kid}\` that signed it was revoked: ${reason}`
    const signed = () => this.#skills.revokeSigned(kid, { by, reason: why })
    return this.#delivery.soon(this.#publishers.revoke(name, kid, by, reason, signed))
  }

  // ── Denied parts ──

  async putDenied(wanted: readonly DeniedPartSpec[], by: string): Promise<Result<DeniedPart[]>> {
    return this.#delivery.soon(this.#denied.put(wanted, by))
  }
  async denied(): Promise<DeniedPart[]> {
    return this.#denied.all()
  }

  // ── The journal ──

  async journal(after: number): Promise<JournalEntry[]> {
    return this.#journal.page(after)
  }

  // ── For the directory ──

  enabled(): EnabledSkill[] {
    return this.#skills.enabled()
  }
  listed(): ListedKeys[] {
    return this.#publishers.listed()
  }
}
