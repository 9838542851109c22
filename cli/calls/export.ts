// `countersign export`: stores the evidence of runs in a folder, or has the edge store it in the
// bucket of the tenant's export target. Both get the same files under the same names. A name contains
// the digest of its file, so an export that is repeated stores nothing twice.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseJson, sha256 } from '../../shared/bytes/json.ts'
import { objectOfRun } from '../../shared/ids.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { EXPORT_START, ExportLine, exportName } from '../../shared/wire/exports.ts'
import type { Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import type { Api } from '../shell/edge-api.ts'
import { saveBytes } from '../shell/files.ts'
import { parseTime } from './lists.ts'

type Stored = { readonly name: string; readonly bytes: number; readonly next: string | null }
/** Stores one part of the export of a run. */
type Store = (run: string, from: string) => Promise<Result<Stored, Trouble>>

const TIME = 'a time such as 2026-11-19T08:00:00Z, or an age such as 30m, 12h or 7d'

export const exportRuns = command({
  words: ['export'],
  args: {},
  flags: {
    since: { value: 'TIME', what: `only runs that were created after this: ${TIME}` },
    until: { value: 'TIME', what: `only runs that were created before this: ${TIME}` },
    to: {
      value: 'DIR|s3://BUCKET',
      what: 'required: a folder here, or the bucket of the export target, without its folder',
    },
  },
  does: 'Export journals, evidence and output of runs, so that they can be verified offline; runs that are stored together are exported together',
  key: 'operator',
  examples: [
    'countersign export --since 24h --to /backups/evidence',
    'countersign export --to s3://evidence',
  ],
  async run({ flags, api }) {
    const since = parseTime('--since', flags.since)
    if (!since.ok) return since
    const until = parseTime('--until', flags.until)
    if (!until.ok) return until
    if (flags.to === undefined)
      return err(usage('`--to` is missing: name a folder, or the bucket of the export target as s3://NAME'))
    const store = flags.to.startsWith('s3://') ? await inBucket(api, flags.to) : ok(inFolder(api, flags.to))
    if (!store.ok) return store
    const runs = await runsBetween(api, since.value ?? 0, until.value ?? Number.MAX_SAFE_INTEGER)
    if (!runs.ok) return runs
    const files: Omit<Stored, 'next'>[] = []
    for (const run of runs.value) {
      for (let from: string | null = EXPORT_START; from !== null; ) {
        const stored: Result<Stored, Trouble> = await store.value(run, from)
        if (!stored.ok) return stored
        const { next, ...file } = stored.value
        files.push(file)
        from = next
      }
    }
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0)
    const text = `files: ${files.length}, bytes: ${bytes}, objects of runs: ${runs.value.length}\n`
    return ok({ ok: true, json: { files }, text })
  },
})

/** One run of each object that has runs from this time. */
export async function runsBetween(
  api: Api,
  since: number,
  until: number,
): Promise<Result<string[], Trouble>> {
  const byObject = new Map<string, string>()
  for (let cursor: number | undefined, more = true; more; ) {
    const page = await api('listRuns', {
      query: { since, ...(cursor === undefined ? {} : { cursor: `${cursor}` }) },
    })
    if (!page.ok) return page
    for (const { id, created_at_ms } of page.value.items)
      if (created_at_ms <= until) byObject.set(objectOfRun(id), id)
    more = page.value.next !== null
    cursor = Number(page.value.next)
  }
  return ok([...byObject.values()])
}

/** The edge stores the parts, because only it has the secret of the access key. */
async function inBucket(api: Api, given: string): Promise<Result<Store, Trouble>> {
  const target = await api('readExportTarget', {})
  if (!target.ok) return target
  const { bucket } = target.value
  if (given.replace(/\/$/, '') !== `s3://${bucket}`)
    return err(
      usage(
        `\`--to\` must be s3://${bucket}, the bucket of the export target; \`countersign export-target set\` changes it`,
      ),
    )
  return ok(async (run, from) => api('storeExport', { params: { run }, query: { from } }))
}

const inFolder =
  (api: Api, folder: string): Store =>
  async (run, from) => {
    const part = await readPart(api, run, from)
    if (!part.ok) return part
    const { name, bytes, next } = part.value
    const saved = saveOnce(folder, name, bytes)
    return saved.ok ? ok({ name, bytes: bytes.byteLength, next }) : saved
  }

type ReadPart = { readonly name: string; readonly bytes: Uint8Array; readonly next: string | null }

export async function readPart(api: Api, run: string, from: string): Promise<Result<ReadPart, Trouble>> {
  const read = await api('readExport', { params: { run }, query: { from } })
  if (!read.ok) return read
  const bytes = read.value
  const end = lastLine(bytes)
  return end === undefined
    ? err(trouble('incomplete', 'the edge sent an incomplete part of an export', 'run the command again'))
    : ok({ name: exportName(objectOfRun(run), from, sha256(bytes)), bytes, next: end.next })
}

/** Saves a file unless it is there with the same bytes. */
export function saveOnce(folder: string, name: string, bytes: Uint8Array): Result<string, Trouble> {
  const path = join(folder, name)
  if (!existsSync(path)) return saveBytes(folder, name, bytes, false)
  return readFileSync(path).equals(bytes)
    ? ok(path)
    : err(
        trouble('exists', `\`${path}\` has other bytes than its name says`, 'move it away, and export again'),
      )
}

function lastLine(bytes: Uint8Array): Extract<ExportLine, { kind: 'end' }> | undefined {
  const text = Buffer.from(bytes.subarray(-LIMITS.export_end_bytes)).toString()
  const parsed = parseJson(Buffer.from(text.trimEnd().split('\n').at(-1) ?? ''))
  const line = ExportLine.safeParse(parsed.ok ? parsed.value : undefined)
  return line.success && line.data.kind === 'end' ? line.data : undefined
}
