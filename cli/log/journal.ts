// The command that lists what was administered: by whom, and when.

import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { emitEvidence, OUTPUT } from '../calls/evidence-file.ts'
import { command } from '../shell/command.ts'
import { listing, time } from '../shell/terminal-text.ts'

export const journal = command({
  words: ['journal'],
  args: {},
  flags: {
    output: OUTPUT,
    after: { value: 'NUMBER', what: 'show only entries after this one (default: 0)' },
  },
  does: 'List who changed what the tenant’s operators administer, and when: policies, tools, agents, operators, workers, secrets, issuers, channels, retention; `countersign verify --journal` checks the saved file',
  key: 'operator',
  examples: [
    'countersign journal',
    'countersign journal -o journal.json',
    'countersign verify --journal journal.json',
  ],
  async run({ flags, api, paint }) {
    const items: JournalEntry[] = []
    for (let after = Number(flags.after ?? 0); ; ) {
      const page = await api('readTenantJournal', { query: { after } })
      if (!page.ok) return page
      if (page.value.items.length === 0) break
      items.push(...page.value.items)
      after = items.at(-1)?.seq ?? after
    }
    const rows = items.map(({ seq, at_ms, kind, body: { by, ...about } }) => [
      String(seq),
      time(at_ms),
      kind,
      String(by),
      Object.entries(about).map(said).join(', '),
    ])
    const text = listing(paint, ['seq', 'at', 'event', 'by', ''], rows, 'the journal is empty')
    return emitEvidence({ items }, flags.output, text)
  },
})

const DIGEST = /^[0-9a-f]{64}$/
const said = ([name, value]: [string, unknown]): string =>
  `${name} ${typeof value !== 'string' ? JSON.stringify(value) : DIGEST.test(value) ? `${value.slice(0, 12)}…` : value}`
