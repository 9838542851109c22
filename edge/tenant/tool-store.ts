// A tenant's tools: every version, and which one is active. Callers have checked the contract; the
// check against the active policies happens here, because the TenantObject serializes changes of
// tools and policies.

import { and, desc, eq } from 'drizzle-orm'
import { digestOf } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { SkillManifest } from '../../shared/wire/skills.ts'
import { toolName } from '../../shared/wire/skills.ts'
import { type Tool, type ToolSpec, upstreamOf } from '../../shared/wire/tools.ts'
import type { Change, Database } from '../platform/database.ts'
import { checkToolChange } from '../policy/check.ts'
import { toolContract } from '../skills/publish/tool-contract.ts'
import type { RecordedChange } from './journal-store.ts'
import type { PolicyStore } from './policy-store.ts'
import { tools } from './tables.ts'

type Row = { name: string; version: number; digest: string; spec: ToolSpec }

export class ToolStore {
  readonly #db: Database
  readonly #record: RecordedChange
  /** For changes that the journal of skills or that of upstreams records. */
  readonly #change: Change
  readonly #policies: Pick<PolicyStore, 'active'>

  constructor(db: Database, record: RecordedChange, change: Change, policies: Pick<PolicyStore, 'active'>) {
    this.#db = db
    this.#record = record
    this.#change = change
    this.#policies = policies
  }

  active(): Tool[] {
    return this.#db.select().from(tools).where(eq(tools.active, true)).all().map(toolOf)
  }

  /** Stored versions, active or not. */
  versions(wanted: readonly Pick<Tool, 'name' | 'version'>[]): Tool[] {
    return wanted.flatMap(({ name, version }) => {
      const is = and(eq(tools.name, name), eq(tools.version, version))
      return this.#db.select().from(tools).where(is).all().map(toolOf)
    })
  }

  /** An unchanged contract keeps its version; any other is the next version (G08). */
  put(name: string, spec: ToolSpec, by: string): Result<Tool> {
    const active = this.#active(name)
    if (active?.digest === digestOf({ name, spec })) return ok(active)
    const room = this.#room(active === undefined ? 1 : 0)
    if (!room.ok) return room
    const owner = ownerOf(active)
    if (owner !== undefined)
      return err(failure('conflict', `\`${name}\` belongs to ${inWords(owner)}; choose another name`))
    const fits = this.#fits(name, { name, ...spec })
    if (!fits.ok) return fits
    return ok(
      this.#record(
        ({ version, digest }) => ['tool.put', by, { tool: name, version, digest }],
        () => this.#write(name, spec, by),
      ),
    )
  }

  remove(name: string, by: string): Result<{ done: true }> {
    const active = this.#active(name)
    if (active === undefined) return err(failure('not_found', `no tool \`${name}\``))
    const owner = ownerOf(active)
    if (owner !== undefined)
      return err(failure('conflict', `\`${name}\` belongs to ${inWords(owner)}; ${TO_WITHDRAW[owner.kind]}`))
    const fits = this.#fits(name, null)
    if (!fits.ok) return fits
    const { version, digest } = active
    this.#record(['tool.removed', by, { tool: name, version, digest }], () => this.#remove(name))
    return ok({ done: true })
  }

  /**
   * Replaces the tools of a skill: all of them, together with the writes of `alsoWrite`, or none.
   */
  enable(manifest: SkillManifest, digest: string, by: string, alsoWrite: () => void): Result<true> {
    const wanted = new Map(
      manifest.tools.map((tool) => [toolName(manifest.id, tool.name), toolContract(manifest, digest, tool)]),
    )
    const taken = [...wanted.keys()].find((name) => {
      const active = this.#active(name)
      return active !== undefined && !isOwnedBy(active, 'skill', manifest.id)
    })
    if (taken !== undefined)
      return err(failure('skill_conflict', `the tool \`${taken}\` exists and does not belong to this skill`))
    const present = this.active()
    const had = present.filter((tool) => isOwnedBy(tool, 'skill', manifest.id))
    const room = this.#room(wanted.size - had.length)
    if (!room.ok) return room
    const gone = had.map(({ name }) => name).filter((name) => !wanted.has(name))
    return this.#replace(wanted, gone, present, by, alsoWrite)
  }

  /**
   * Puts and removes tools of an upstream, together with the writes of `alsoWrite`, or nothing. A
   * tool of somebody else with one of the names refuses all (U04).
   */
  changeUpstream(
    upstream: string,
    { put, remove }: { put: ReadonlyMap<string, ToolSpec>; remove: readonly string[] },
    by: string,
    alsoWrite: () => void,
  ): Result<true> {
    const present = this.active()
    const had = present.filter((tool) => isOwnedBy(tool, 'upstream', upstream)).map(({ name }) => name)
    const taken = present.find(({ name }) => put.has(name) && !had.includes(name))
    if (taken !== undefined)
      return err(
        failure('conflict', `there is a tool \`${taken.name}\` that does not belong to this upstream`),
      )
    const gone = remove.filter((name) => had.includes(name))
    const room = this.#room([...put.keys()].filter((name) => !had.includes(name)).length)
    if (!room.ok) return room
    return this.#replace(put, gone, present, by, alsoWrite)
  }

  /** All of it, or nothing if a policy that applies needs one of the tools as it is. */
  #replace(
    put: ReadonlyMap<string, ToolSpec>,
    gone: readonly string[],
    present: readonly Tool[],
    by: string,
    alsoWrite: () => void,
  ): Result<true> {
    for (const [name, spec] of put) {
      const fits = this.#fits(name, { name, ...spec }, present)
      if (!fits.ok) return fits
    }
    for (const name of gone) {
      const fits = this.#fits(name, null, present)
      if (!fits.ok) return fits
    }
    this.#change(() => {
      for (const name of gone) this.#remove(name)
      for (const [name, spec] of put)
        if (this.#active(name)?.digest !== digestOf({ name, spec })) this.#write(name, spec, by)
      alsoWrite()
    })
    return ok(true)
  }

  #active(name: string): Tool | undefined {
    const row = this.#db
      .select()
      .from(tools)
      .where(and(eq(tools.name, name), eq(tools.active, true)))
      .get()
    return row === undefined ? undefined : toolOf(row)
  }

  #room(more: number): Result<true> {
    return this.active().length + more > LIMITS.tools
      ? err(failure('limit_reached', `a tenant can have at most ${LIMITS.tools} tools`))
      : ok(true)
  }

  #fits(
    name: string,
    tool: (ToolSpec & { name: string }) | null,
    present: readonly Tool[] = this.active(),
  ): Result<true> {
    return checkToolChange(this.#policies.active().texts, present, name, tool)
  }

  #write(name: string, spec: ToolSpec, by: string): Tool {
    const newest = this.#db
      .select({ version: tools.version })
      .from(tools)
      .where(eq(tools.name, name))
      .orderBy(desc(tools.version))
    const row = {
      name,
      version: (newest.limit(1).get()?.version ?? 0) + 1,
      digest: digestOf({ name, spec }),
      spec,
    }
    this.#remove(name)
    this.#db
      .insert(tools)
      .values({ ...row, active: true, createdAt: Date.now(), createdBy: by })
      .run()
    return toolOf(row)
  }

  #remove(name: string): void {
    this.#db.update(tools).set({ active: false }).where(eq(tools.name, name)).run()
  }
}

/**
 * The skill or upstream that brings a tool and removes it again; undefined for a tool that an
 * operator registered.
 */
type Owner = { readonly kind: 'skill' | 'upstream'; readonly name: string }

function ownerOf(tool: Tool | undefined): Owner | undefined {
  if (tool === undefined) return undefined
  if (tool.executor.kind === 'skill') return { kind: 'skill', name: tool.executor.skill }
  const upstream = upstreamOf(tool)
  return upstream === undefined ? undefined : { kind: 'upstream', name: upstream }
}

const isOwnedBy = (tool: Tool, kind: Owner['kind'], name: string): boolean => {
  const owner = ownerOf(tool)
  return owner?.kind === kind && owner.name === name
}
const inWords = ({ kind, name }: Owner): string => `the ${kind} \`${name}\``
const TO_WITHDRAW: Readonly<Record<Owner['kind'], string>> = {
  skill: 'disable the skill instead',
  upstream: 'withdraw it with `countersign upstreams withdraw`',
}

const toolOf = ({ name, version, digest, spec }: Row): Tool => ({ ...spec, name, version, digest })
