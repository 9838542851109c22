// Lines that decide what is read of a sealed run, and that a sealed run is never taken for a new one.

import type { Held } from './mutant.ts'

const ENTRY = ['test/edge/archive/entry.test.ts']
const REST = ['test/edge/run/sealing.test.ts']
const ROWS = ['test/edge/run/sealed-rows.test.ts']
const SEALED = ['test/faults/archive.test.ts']
const REMOVED = ['test/edge/call/removal.test.ts']
const RETENTION = ['test/faults/retention.test.ts']

export const ARCHIVES: readonly Held[] = [
  {
    area: 'archives',
    file: 'edge/archive/entry.ts',
    tests: ENTRY,
    lines: [
      ['if (sha256(bytes) !== digest)', 'if (false)', 'A call is answered that the disk has changed.'],
      ['owner !== object || number', 'number', 'A run answers with the calls of another one.'],
      ['|| number !== part', '', 'A part of an entry is read in place of another.'],
      ['last !== (part === parts - 1)', 'false', 'The end of a journal is missing, and nothing says so.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/rest.ts',
    tests: REST,
    lines: [
      ['!isDelivered || nextDue', 'nextDue', 'A call is sealed before the log has its end.'],
      ['|| nextDue !== null ||', '||', 'A run is sealed while a call waits, and the call never ends.'],
      ['|| storedBytes > LIMITS.sealed_run_bytes', '', 'One read of a sealed run takes all memory.'],
      [
        '(at.born ?? 0) + LIMITS.seal_never_before_ms',
        '0',
        'A sealed run that is younger than a second is taken for a new one.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/run-object.ts',
    tests: SEALED,
    titled: 'L2 an equal proposal',
    lines: [['if (this.#runs.store.isEmpty)', 'if (false)', 'The key of a sealed call runs the call again.']],
  },
  {
    area: 'archives',
    file: 'edge/run/object/runs.ts',
    tests: SEALED,
    titled: 'the sealed runs of a deleted tenant',
    lines: [
      [
        'await dropEntry(this.env, some.tenant, some.id)',
        'await undefined',
        'The calls of a deleted tenant stay on the disk.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/object/object-store.ts',
    tests: ROWS,
    lines: [
      [
        '    this.putBack()\n    this.tables.add(...names)',
        '    this.tables.add(...names)',
        'A file that is put into a sealed run makes all its calls unreadable.',
      ],
      [
        '    this.tables.forget()\n    this.#isPutBack = false\n',
        '    this.tables.forget()\n',
        'After a full disk a sealed run looks new, and its calls run again.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/sealed-rows.ts',
    tests: ROWS,
    lines: [
      [
        'Number(row[column]) >= Number(first) &&',
        '',
        'A run answers with the calls of another run of its object.',
      ],
      [
        'Number(row[column]) <= Number(last)',
        'true',
        'A run answers with the journal of the next run of its object.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/archive/archive-of.ts',
    tests: ['test/edge/archive/entry.test.ts'],
    lines: [
      [
        '(Number(base32Number(shared)) - SHARED_BIT) * SPAN_MS',
        'Number(base32Number(shared)) * SPAN_MS',
        'The edge looks for sealed runs in another archive than the one that it says, and backups miss days.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/call/removal.ts',
    tests: REMOVED,
    lines: [
      ['ms >= days * dayMs', 'true', 'Outputs are removed before their time.'],
      ['days !== null &&', '', 'A rule that keeps for ever removes at once.'],
      ['args: {}, plan: null', 'plan: null', 'Removed arguments stay on the disk.'],
      ["command: '', plan: '', arguments: ''", '', 'The card of an approval shows removed arguments.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/removal.ts',
    tests: RETENTION,
    lines: [
      [
        'if (force === null || force.held.includes(objectOfRun(some.id))) return',
        'if (force === null) return',
        'A run under legal hold loses its evidence, if its archive asked before the hold was put.',
      ],
      [
        'await retention.redact(page.approvals)',
        '',
        'The inbox shows the arguments of a call after the rule has removed them.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/tenant/retention-store.ts',
    tests: RETENTION,
    lines: [
      [
        '|| held.some(({ subject }) => subject === WHOLE)',
        '',
        'A tenant under legal hold loses outputs and arguments.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/installation/installation-object.ts',
    tests: RETENTION,
    lines: [['if (held > 0)', 'if (false)', 'A tenant under legal hold is deleted.']],
  },
]
