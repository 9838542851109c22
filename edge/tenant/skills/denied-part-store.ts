// Parts that no skill of a tenant may contain, for example vulnerable libraries, by their names in
// bills of materials.

import { asc } from 'drizzle-orm'
import type { Result } from '../../../shared/result.ts'
import { ok } from '../../../shared/result.ts'
import type { DeniedPart, DeniedPartSpec, SkillPart } from '../../../shared/wire/skills.ts'
import type { Change, Database } from '../../platform/database.ts'
import { escapeConfusables } from '../../platform/visible-text.ts'
import { deniedParts } from '../tables.ts'
import type { SkillJournal } from './journal-store.ts'

export class DeniedParts {
  readonly #db: Database
  readonly #change: Change
  readonly #journal: SkillJournal

  constructor(db: Database, change: Change, journal: SkillJournal) {
    this.#db = db
    this.#change = change
    this.#journal = journal
  }

  all(): DeniedPart[] {
    const rows = this.#db.select().from(deniedParts).orderBy(asc(deniedParts.pattern)).all()
    return rows.map(({ pattern, reason, by, at }) => ({ pattern, reason, by, at_ms: at }))
  }

  /** Replaces the list. */
  put(wanted: readonly DeniedPartSpec[], by: string): Result<DeniedPart[]> {
    const had = new Map(this.all().map((one) => [one.pattern, one]))
    this.#change(() => {
      this.#db.delete(deniedParts).run()
      for (const { pattern, reason } of wanted) {
        const known = had.get(pattern)
        const same = known?.reason === reason ? { by: known.by, at: known.at_ms } : { by, at: Date.now() }
        this.#db
          .insert(deniedParts)
          .values({ pattern, reason, ...same })
          .run()
      }
      this.#journal.append(
        'parts.denied',
        { publisher: '' },
        { patterns: wanted.map(({ pattern }) => pattern), by },
      )
    })
    return ok(this.all())
  }

  /** The denied ones among these parts, as sentences with the reason. */
  among(parts: readonly SkillPart[], denied = this.all()): string[] {
    return parts.flatMap((part) => {
      const hit = denied.find(({ pattern }) => matches(pattern, part))
      return hit === undefined
        ? []
        : [
            `it contains \`${escapeConfusables(`${part.name}@${part.version}`)}\`: ${escapeConfusables(hit.reason)}`,
          ]
    })
  }
}

const matches = (pattern: string, { name, version, purl = '' }: SkillPart): boolean =>
  [`${name}@${version}`, purl].some((id) =>
    pattern.endsWith('*') ? id.startsWith(pattern.slice(0, -1)) : id === pattern,
  )
