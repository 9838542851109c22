// A tenant's upstreams and the pins of their tools: which definition an operator accepted, which one
// the server showed last. A part of the TenantObject, so that the next proposal and the next claim
// see that a tool has changed (U01).

import { and, asc, count, eq, isNull } from 'drizzle-orm'
import { canonical, type Json } from '../../shared/bytes/json.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { ToolSpec } from '../../shared/wire/tools.ts'
import type {
  Upstream,
  UpstreamAcceptance,
  UpstreamDiff,
  UpstreamEntry,
  UpstreamSpec,
  UpstreamTool,
  UpstreamToolState,
  UpstreamWithTools,
} from '../../shared/wire/upstreams.ts'
import type { ListedUpstream } from '../directory/gatekeeper.ts'
import type { Change, Database } from '../platform/database.ts'
import { escapeConfusables } from '../platform/visible-text.ts'
import {
  type Definition,
  descriptionIn,
  faultsOf,
  identityOf,
  type ListedTools,
  parseTools,
  toolContract,
} from '../upstreams/definition.ts'
import { changesBetween } from '../upstreams/definition-diff.ts'
import type { Look } from '../upstreams/look.ts'
import type { Journal } from './journal-store.ts'
import { upstreams, upstreamTools } from './tables.ts'
import type { ToolStore } from './tool-store.ts'

type Row = typeof upstreams.$inferSelect
type ToolRow = typeof upstreamTools.$inferSelect
/** The columns that say whether a tool may be called (U02). */
type ToolStatus = Pick<ToolRow, 'name' | 'pinnedDigest' | 'seenDigest' | 'quarantined' | 'faults'>

const NO_UPSTREAM = failure('not_found', 'no such upstream')
const NO_TOOL = failure('not_found', 'this upstream has no such tool')
const NOT_SHOWN = failure(
  'conflict',
  'the server now shows a definition other than the one that you looked at; look at the tool again',
)

export class UpstreamStore {
  readonly #db: Database
  readonly #change: Change
  readonly #tools: ToolStore
  readonly #journal: Pick<Journal<UpstreamEntry>, 'append'>

  constructor(
    db: Database,
    change: Change,
    tools: ToolStore,
    journal: Pick<Journal<UpstreamEntry>, 'append'>,
  ) {
    this.#db = db
    this.#change = change
    this.#tools = tools
    this.#journal = journal
  }

  /**
   * With another address or command every accepted tool is quarantined, because its pin names the server. With
   * other authentication or limits they stay accepted and get a new version.
   */
  put(name: string, spec: UpstreamSpec, by: string): Result<Upstream> {
    const before = this.#row(name)
    const all = this.#db.select({ n: count() }).from(upstreams).get()?.n ?? 0
    if (before === undefined && all >= LIMITS.upstreams)
      return err(failure('limit_reached', `a tenant can have at most ${LIMITS.upstreams} upstreams`))
    const row = {
      name,
      spec,
      revision: (before?.revision ?? 0) + 1,
      by,
      at: Date.now(),
      lookedAt: null,
      era: null,
      fault: null,
      refused: [],
    }
    const isSame =
      before !== undefined && canonical(identityOf(before)) === canonical(identityOf({ name, spec }))
    const write = (): void => {
      this.#db.insert(upstreams).values(row).onConflictDoUpdate({ target: upstreams.name, set: row }).run()
      this.#journal.append('upstream.put', { upstream: name, ...spec, by })
      if (before !== undefined && !isSame) this.#distrust(name)
    }
    const put = new Map((isSame ? this.#rows(name) : []).flatMap((tool) => contractOf({ name, spec }, tool)))
    const done = this.#tools.changeUpstream(name, { put, remove: [] }, by, write)
    return done.ok ? ok(this.#view(row)) : done
  }

  list(): Upstream[] {
    return this.#db
      .select()
      .from(upstreams)
      .orderBy(asc(upstreams.name))
      .all()
      .map((row) => this.#view(row))
  }

  read(name: string): Result<UpstreamWithTools> {
    const row = this.#row(name)
    if (row === undefined) return err(NO_UPSTREAM)
    const { tools: _, ...upstream } = this.#view(row)
    return ok({ ...upstream, tools: this.#rows(name).map(toolView), refused: row.refused })
  }

  /** The upstream as it is called, without its tools. */
  address(name: string): Omit<ListedUpstream, 'withheld'> | undefined {
    const row = this.#row(name)
    return row === undefined ? undefined : addressOf(row)
  }

  remove(name: string, by: string): Result<{ done: true }> {
    if (this.#row(name) === undefined) return err(NO_UPSTREAM)
    const names = this.#rows(name).map((tool) => tool.name)
    const done = this.#tools.changeUpstream(name, { put: new Map(), remove: names }, by, () => {
      this.#db.delete(upstreamTools).where(eq(upstreamTools.upstream, name)).run()
      this.#db.delete(upstreams).where(eq(upstreams.name, name)).run()
      this.#journal.append('upstream.removed', { upstream: name, by })
    })
    return done.ok ? ok({ done: true }) : done
  }

  /** Compares a look with the pins. Only a change that concerns calls makes a new directory. */
  saw(name: string, revision: number, { era, tools }: Look): Result<ListedTools> {
    const row = this.#row(name)
    if (row === undefined || row.revision !== revision) return err(NO_UPSTREAM)
    const listed = parseTools(tools, identityOf(row))
    const write = (): void => {
      const [lookedAt, refused] = [Date.now(), [...listed.refused]]
      this.#db
        .update(upstreams)
        .set({ lookedAt, era, fault: null, refused })
        .where(eq(upstreams.name, name))
        .run()
      this.#compare(row, listed)
    }
    if (this.#wouldWithhold(name, listed)) this.#change(write)
    else write()
    return ok(listed)
  }

  /**
   * A worker found a definition other than the accepted one when it was about to call the tool, so
   * it sent nothing. The tool stays quarantined until an operator accepts what the server shows.
   */
  differed(name: string, upstreamName: string, definition: string): void {
    const row = this.#rows(name).find(
      (one) => one.upstreamName === upstreamName && one.pinnedDigest === definition,
    )
    if (row !== undefined && !row.quarantined) this.#change(() => this.#quarantine(row, {}))
  }

  failed(name: string, revision: number, fault: string): void {
    const of = and(eq(upstreams.name, name), eq(upstreams.revision, revision))
    this.#db.update(upstreams).set({ fault }).where(of).run()
  }

  /** Pins the definition that the operator has looked at, if the server still shows it. */
  accept(
    name: string,
    tool: string,
    { definition, ...terms }: UpstreamAcceptance,
    by: string,
  ): Result<UpstreamTool> {
    const [upstream, row] = [this.#row(name), this.#tool(name, tool)]
    if (upstream === undefined || row === undefined) return err(NO_TOOL)
    if (row.seen === null || row.seenDigest !== definition) return err(NOT_SHOWN)
    const contract = toolContract(upstream, seenOf(row, row.seen), terms)
    if (!contract.ok)
      return err(failure('invalid_schema', `the tool can’t be accepted: ${contract.error.join('; ')}`))
    const pinned = {
      pinned: row.seen,
      pinnedDigest: row.seenDigest,
      quarantined: false,
      terms,
      acceptedBy: by,
      acceptedAt: Date.now(),
    }
    const put = new Map([[tool, contract.value]])
    const done = this.#tools.changeUpstream(name, { put, remove: [] }, by, () => {
      this.#update(tool, pinned)
      const before = row.pinnedDigest
      const accepted = { upstream: name, tool, definition, before, ...terms, by }
      this.#journal.append('upstream.tool_accepted', accepted)
    })
    return done.ok ? ok(toolView({ ...row, ...pinned })) : done
  }

  withdraw(name: string, tool: string, by: string): Result<UpstreamTool> {
    const row = this.#tool(name, tool)
    if (row === undefined) return err(NO_TOOL)
    const unpinned = {
      pinned: null,
      pinnedDigest: null,
      quarantined: false,
      terms: null,
      acceptedBy: null,
      acceptedAt: null,
    }
    const done = this.#tools.changeUpstream(name, { put: new Map(), remove: [tool] }, by, () => {
      this.#update(tool, unpinned)
      this.#journal.append('upstream.tool_withdrawn', {
        upstream: name,
        tool,
        definition: row.pinnedDigest,
        by,
      })
    })
    return done.ok ? ok(toolView({ ...row, ...unpinned })) : done
  }

  diff(name: string, tool: string): Result<UpstreamDiff> {
    const row = this.#tool(name, tool)
    if (row === undefined) return err(NO_TOOL)
    const text = (json: ToolRow['seen']) =>
      json === null ? null : escapeConfusables(JSON.stringify(json, null, 2))
    const isNew = row.pinned === null
    const changes = isNew ? [] : changesBetween(row.pinned ?? undefined, row.seen ?? undefined)
    return ok({ tool: toolView(row), pinned: text(row.pinned), seen: text(row.seen), changes })
  }

  listed(): ListedUpstream[] {
    return this.#db
      .select()
      .from(upstreams)
      .all()
      .map((row) => ({
        ...addressOf(row),
        withheld: this.#statuses(row.name).flatMap((tool) => withheldOf(row.name, tool)),
      }))
  }

  #wouldWithhold(name: string, { tools }: ListedTools): boolean {
    const digests = new Map(tools.map((tool) => [tool.name, tool.digest]))
    return this.#statuses(name).some(
      ({ name: tool, pinnedDigest, seenDigest }) =>
        pinnedDigest !== null && seenDigest !== (digests.get(tool) ?? null),
    )
  }

  #compare({ name, spec }: Row, { tools }: ListedTools): void {
    const known = new Map(this.#rows(name).map((row) => [row.name, row]))
    for (const tool of tools) {
      const row = known.get(tool.name)
      known.delete(tool.name)
      if (row?.seenDigest === tool.digest) continue
      const seen = {
        upstreamName: tool.upstreamName,
        seen: { ...tool.json },
        seenDigest: tool.digest,
        faults: [...faultsOf({ name, spec }, tool)],
      }
      if (row === undefined)
        this.#db
          .insert(upstreamTools)
          .values({ name: tool.name, upstream: name, quarantined: false, ...seen })
          .run()
      // U01: it stays quarantined even if the server shows the accepted definition again.
      else if (isOther(row, tool)) this.#quarantine(row, seen)
      else this.#update(tool.name, seen)
    }
    for (const { name: tool, pinned } of known.values())
      if (pinned === null) this.#db.delete(upstreamTools).where(eq(upstreamTools.name, tool)).run()
      else this.#update(tool, { seen: null, seenDigest: null, faults: [] })
  }

  #distrust(name: string): void {
    this.#db
      .delete(upstreamTools)
      .where(and(eq(upstreamTools.upstream, name), isNull(upstreamTools.pinnedDigest)))
      .run()
    for (const row of this.#rows(name)) this.#quarantine(row, { seen: null, seenDigest: null })
  }

  #quarantine(row: ToolRow, seen: Partial<ToolRow>): void {
    this.#update(row.name, { ...seen, quarantined: true })
    const { name: tool, upstream, pinnedDigest: definition } = row
    const shown = seen.seenDigest ?? null
    this.#journal.append('upstream.tool_quarantined', { upstream, tool, definition, shown })
  }

  #row(name: string): Row | undefined {
    return this.#db.select().from(upstreams).where(eq(upstreams.name, name)).get()
  }
  #rows(upstream: string): ToolRow[] {
    const of = eq(upstreamTools.upstream, upstream)
    return this.#db.select().from(upstreamTools).where(of).orderBy(asc(upstreamTools.name)).all()
  }
  #statuses(upstream: string): ToolStatus[] {
    const { name, pinnedDigest, seenDigest, quarantined, faults } = upstreamTools
    const columns = { name, pinnedDigest, seenDigest, quarantined, faults }
    return this.#db.select(columns).from(upstreamTools).where(eq(upstreamTools.upstream, upstream)).all()
  }
  #tool(upstream: string, name: string): ToolRow | undefined {
    const of = and(eq(upstreamTools.upstream, upstream), eq(upstreamTools.name, name))
    return this.#db.select().from(upstreamTools).where(of).get()
  }
  #update(name: string, set: Partial<ToolRow>): void {
    this.#db.update(upstreamTools).set(set).where(eq(upstreamTools.name, name)).run()
  }

  #view({ name, spec, by, at, lookedAt, era, fault, refused }: Row): Upstream {
    const tools = { new: 0, accepted: 0, changed: 0, gone: 0, refused: refused.length }
    for (const tool of this.#statuses(name)) tools[stateOf(tool)] += 1
    return { name, ...spec, put_by: by, put_at_ms: at, looked_at_ms: lookedAt, era, fault, tools }
  }
}

const isOther = ({ pinnedDigest }: ToolRow, { digest }: Definition): boolean =>
  pinnedDigest !== null && pinnedDigest !== digest

function stateOf({ pinnedDigest, quarantined, seenDigest, faults }: ToolStatus): UpstreamToolState {
  if (pinnedDigest === null) return faults.length > 0 ? 'refused' : 'new'
  if (quarantined) return 'changed'
  return seenDigest === null ? 'gone' : 'accepted'
}

const addressOf = ({ name, spec, revision }: Row): Omit<ListedUpstream, 'withheld'> => ({
  name,
  spec,
  revision,
})

function withheldOf(upstream: string, row: ToolStatus): [string, string][] {
  const state = stateOf(row)
  if (state === 'changed')
    return [
      [
        row.name,
        `the definition of \`${row.name}\` at the upstream \`${upstream}\` has changed since it was accepted`,
      ],
    ]
  return state === 'gone'
    ? [[row.name, `the upstream \`${upstream}\` does not list \`${row.name}\` any more`]]
    : []
}

const seenOf = ({ name, upstreamName, seenDigest }: ToolRow, json: Record<string, Json>): Definition => ({
  name,
  upstreamName,
  digest: seenDigest ?? '',
  json,
})

/** The contract of an accepted tool under a changed specification of its upstream. */
function contractOf(
  server: { readonly name: string; readonly spec: UpstreamSpec },
  row: ToolRow,
): [string, ToolSpec][] {
  const { name, pinned, pinnedDigest, terms } = row
  if (pinned === null || terms === null || pinnedDigest === null) return []
  const definition = { ...seenOf(row, pinned), digest: pinnedDigest }
  const contract = toolContract(server, definition, terms)
  return contract.ok ? [[name, contract.value]] : []
}

const toolView = (row: ToolRow): UpstreamTool => ({
  name: row.name,
  upstream_name: escapeConfusables(row.upstreamName),
  state: stateOf(row),
  pinned: row.pinnedDigest,
  seen: row.seenDigest,
  description: escapeConfusables(descriptionIn(row.seen ?? row.pinned ?? {})),
  faults: row.faults,
  terms: row.terms,
  accepted_by: row.acceptedBy,
  accepted_at_ms: row.acceptedAt,
})
