// All evidence of a tenant, or of a period or a run: the exported runs, the tenant's own journals and
// the log. It is read from the edge or from a folder, as a stream; what comes from the edge can be
// recorded in a folder while it is read.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EVIDENCE_BOUNDS, parseJson } from '../../shared/bytes/json.ts'
import { JournalEntry } from '../../shared/evidence/journal.ts'
import type { Keys } from '../../shared/evidence/keys.ts'
import { tilePath } from '../../shared/evidence/tiles.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { EXPORT_START } from '../../shared/wire/exports.ts'
import { readPart, runsBetween, saveOnce } from '../calls/export.ts'
import { type PartFile, partsAt } from '../calls/verify-export.ts'
import { type Trouble, trouble } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { saveBytes } from '../shell/files.ts'
import { COSIGNED, edgeLog, folderLog, type LogSource, readNote } from './sources.ts'

type Stream<T> = AsyncIterable<Result<T, Trouble>>
/** The next entries of a journal of the tenant. */
type JournalPage = { readonly journal: string; readonly entries: readonly JournalEntry[] }

/** Callers read the runs and journals before the log: as it only grows, it then has all their leaves. */
export type Evidence = LogSource & {
  /** The signed note of the log before the runs are read: the runs have the entries of all its leaves. */
  readonly before: () => Promise<Result<string, Trouble>>
  readonly parts: () => Stream<PartFile>
  readonly journals: () => Stream<JournalPage>
}

/** The journals whose entries are leaves too, by the name that the log has for each. */
const JOURNALS = {
  skills: 'readSkillJournal',
  upstreams: 'readUpstreamJournal',
  tenant: 'readTenantJournal',
} as const

export type Extent =
  | { readonly run: string }
  | { readonly since: number | undefined; readonly until: number | undefined }

export function edgeEvidence(
  api: Api,
  { keys: { tenant }, extent }: { readonly keys: Pick<Keys, 'tenant'>; readonly extent: Extent },
  url: string,
): Evidence {
  const log = edgeLog(api, tenant, url)
  return {
    ...log,
    before: log.checkpoint,
    async *parts() {
      const runs =
        'run' in extent
          ? ok([extent.run])
          : await runsBetween(api, extent.since ?? 0, extent.until ?? Number.MAX_SAFE_INTEGER)
      if (!runs.ok) return yield runs
      for (const run of runs.value) {
        for (let from: string | null = EXPORT_START; from !== null; ) {
          const part: Awaited<ReturnType<typeof readPart>> = await readPart(api, run, from)
          yield part.ok ? ok({ name: part.value.name, bytes: ok(part.value.bytes) }) : part
          from = part.ok ? part.value.next : null
        }
      }
    },
    async *journals() {
      if ('run' in extent) return
      for (const [journal, route] of Object.entries(JOURNALS)) {
        for (let after = 0; ; ) {
          const page = await api(route, { query: { after } })
          if (!page.ok) return yield page
          const entries = page.value.items
          if (entries.length === 0) break
          yield ok({ journal, entries })
          after = entries.at(-1)?.seq ?? after
        }
      }
    },
  }
}

// The names of the files and folders in an exported folder.
const LOG = 'log'
const BEFORE = 'before'
const RUNS = 'runs'
const JOURNAL_FOLDER = 'journals'

/** `folder`: written by `recorded`. */
export function folderEvidence(folder: string): Evidence {
  return {
    ...folderLog(join(folder, LOG)),
    before: async () => readNote(join(folder, LOG, BEFORE)),
    async *parts() {
      const runs = join(folder, RUNS)
      if (existsSync(runs)) yield* partsAt(runs)
    },
    async *journals() {
      const journals = join(folder, JOURNAL_FOLDER)
      for (const file of existsSync(journals) ? readdirSync(journals).sort() : []) {
        const path = join(journals, file)
        for (const line of readFileSync(path, 'utf8').split('\n')) {
          if (line === '') continue
          const parsed = parseJson(Buffer.from(line), EVIDENCE_BOUNDS)
          const entry = JournalEntry.safeParse(parsed.ok ? parsed.value : undefined)
          yield entry.success
            ? ok({ journal: file, entries: [entry.data] })
            : err(trouble('unreadable', `\`${path}\` has a line that is not an entry of a journal`))
        }
      }
    },
  }
}

/** The same evidence. Each piece is saved in the folder before it is returned. */
export function recorded(evidence: Evidence, folder: string): Evidence {
  const save = (path: string, bytes: Uint8Array) => saveBytes(folder, path, bytes, true)
  const noted = async (path: string, note: Result<string, Trouble>): Promise<Result<string, Trouble>> => {
    const saved = note.ok ? save(join(LOG, path), Buffer.from(note.value)) : note
    return saved.ok ? note : saved
  }
  return {
    isLive: evidence.isLive,
    address: evidence.address,
    before: async () => noted(BEFORE, await evidence.before()),
    checkpoint: async () => noted('checkpoint', await evidence.checkpoint()),
    async cosigned() {
      const notes = await evidence.cosigned()
      if (!notes.ok) return notes
      for (const [i, note] of notes.value.entries()) {
        const saved = save(join(LOG, COSIGNED, `${i}`), Buffer.from(note))
        if (!saved.ok) return saved
      }
      return notes
    },
    async readTile(tile) {
      const bytes = await evidence.readTile(tile)
      const saved = bytes.ok ? save(join(LOG, 'tile', tilePath(tile)), bytes.value) : bytes
      return saved.ok ? bytes : saved
    },
    async *parts() {
      for await (const part of evidence.parts()) {
        const bytes = part.ok ? part.value.bytes : err('')
        const saved = part.ok && bytes.ok ? saveOnce(join(folder, RUNS), part.value.name, bytes.value) : part
        yield saved.ok ? part : saved
      }
    },
    async *journals() {
      const lines = new Map<string, string[]>()
      for await (const page of evidence.journals()) {
        if (!page.ok) return yield page
        const { journal, entries } = page.value
        const own = lines.get(journal) ?? []
        lines.set(journal, own)
        own.push(...entries.map((entry) => `${JSON.stringify(entry)}\n`))
        yield page
      }
      for (const [journal, own] of lines) {
        const saved = save(join(JOURNAL_FOLDER, `${journal}.jsonl`), Buffer.from(own.join('')))
        if (!saved.ok) yield saved
      }
    },
  }
}
