// Opens the database file of a Durable Object while the edge is stopped, for tests that would
// otherwise have to wait for days. The stack must have only one tenant.

import { createHash, createHmac } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** The edge may remove an object at this moment, because it is sealed. */
const LOCKED_MS = 5_000

export function runFileOf(run: string, state: string): DatabaseSync {
  const folder = join(state, 'edge/objects/countersign-run')
  for (const file of readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))) {
    const db = new DatabaseSync(join(folder, file), { timeout: LOCKED_MS })
    const isMade = db.prepare("select 1 from sqlite_schema where name = 'run'").get() !== undefined
    if (
      isMade &&
      db.prepare("select 1 from run where json_extract(record, '$.id') = ?").get(run) !== undefined
    )
      return db
    db.close()
  }
  throw new Error(`no object of ${run}`)
}

/** The file of an object of which the stack has exactly one. */
export function fileOf(kind: 'tenant' | 'channel' | 'run', state: string): DatabaseSync {
  const folder = join(state, `edge/objects/countersign-${kind}`)
  const [file, ...more] = readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))
  if (file === undefined || more.length > 0) throw new Error(`there is one ${kind} object`)
  return new DatabaseSync(join(folder, file))
}

/** The files of all objects of a stack. */
export const objectFiles = (state: string): string[] =>
  readdirSync(join(state, 'edge/objects'), { recursive: true })
    .map(String)
    .filter((file) => file.endsWith('.sqlite'))

/** The file of the skill whose storage contains this key. */
export function skillFileOf(key: string, state: string): DatabaseSync {
  const folder = join(state, 'edge/objects/countersign-skill')
  for (const file of readdirSync(folder).filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))) {
    const db = new DatabaseSync(join(folder, file))
    if (db.prepare('select 1 from entries where key = ?').get(key) !== undefined) return db
    db.close()
  }
  throw new Error(`no skill keeps \`${key}\``)
}

/** The id that workerd derives from an object's name, which is the name of its file. */
export function objectId(uniqueKey: string, name: string): string {
  const key = createHash('sha256').update(uniqueKey).digest()
  const half = (of: string | Buffer): Buffer => createHmac('sha256', key).update(of).digest().subarray(0, 16)
  const base = half(name)
  return Buffer.concat([base, half(base)]).toString('hex')
}

/**
 * Sets an object's alarm to a moment ago, in the object's file and in workerd's list, so that an
 * alarm due in a day fires at the next start.
 */
export function advanceAlarm(file: string): void {
  if (!advance(dirname(file), basename(file, '.sqlite'))) throw new Error(`no alarm is set for ${file}`)
}

/** The same for all objects of a class that have an alarm. */
export function advanceAlarms(folder: string): void {
  const list = new DatabaseSync(join(folder, 'metadata.sqlite'))
  const objects = list.prepare('select actor_id from _cf_ALARM').all() as Array<{ actor_id: string }>
  list.close()
  for (const { actor_id } of objects) advance(folder, actor_id)
}

/** Returns whether the object has an alarm. */
function advance(folder: string, id: string): boolean {
  const at = BigInt(Date.now() - 1_000) * 1_000_000n
  const object = new DatabaseSync(join(folder, `${id}.sqlite`))
  object.prepare('update _cf_METADATA set value = ? where key = 1').run(at)
  object.close()
  const list = new DatabaseSync(join(folder, 'metadata.sqlite'))
  const { changes } = list.prepare('update _cf_ALARM set scheduled_time = ? where actor_id = ?').run(at, id)
  list.close()
  return changes === 1
}
