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
      [
        "if (partOf(bytes).digest !== digest) return err('the digest of a part does not match')",
        '',
        'The edge returns a call whose bytes have changed on disk.',
      ],
      [
        "if (partOf(bytes).digest !== digest) return err('its digest does not match')",
        '',
        'An index that has changed on disk hides a run, and the key of a sealed call runs the call again.',
      ],
      ['if (owner !== object)', 'if (false)', 'A run answers with the calls of another one.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/sealing.ts',
    tests: REST,
    lines: [
      ['if (runBytes > LIMITS.sealed_run_bytes)', 'if (false)', 'One read of a sealed run takes all memory.'],
      [
        'if (runs.changes !== changes) return Date.now()\n  const bytes',
        'const bytes',
        'An erased object leaves its calls in the archive, or a call that came during sealing is lost.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/rest.ts',
    tests: REST,
    lines: [
      ['isDelivered && nextDue === null', 'nextDue === null', 'A call is sealed before the log has its end.'],
      [
        'isDelivered && nextDue === null',
        'isDelivered',
        'A run is sealed while a call waits, and the call never ends.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/archived.ts',
    tests: SEALED,
    titled: 'L2 an equal proposal',
    lines: [
      ['if (runs.store.isWhole) this.#index', 'this.#index', 'The key of a sealed call runs the call again.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/archived.ts',
    tests: SEALED,
    titled: 'a damaged entry',
    lines: [
      [
        "if (parts.length < digests.length) throw damaged(object, 'parts of it are missing')",
        '',
        'A run of which a part is missing looks as if it had never existed.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/new-run.ts',
    tests: ROWS,
    lines: [[' && bornAt(run) !== null', '', 'The key of a sealed call runs the call again.']],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/sealing.ts',
    tests: SEALED,
    titled: 'a run that has grown too large',
    lines: [
      ['await archive.unstage(object)', '', 'A tenant fills the disk with parts that no quota counts.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/archive/archive-object.ts',
    tests: SEALED,
    titled: 'a run that has grown too large',
    lines: [
      [
        'if (!kept.has(digest)) ',
        '',
        'A run that was sealed and has grown too large loses its sealed calls.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/archive/archive-object.ts',
    tests: SEALED,
    titled: 'an entry of a later state',
    lines: [
      [
        ' || (entry.weight ?? 0) > weight',
        '',
        'An earlier instance of an object takes back what has happened since.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/tenant/erasure.ts',
    tests: SEALED,
    titled: 'the sealed runs and the sessions',
    lines: [
      [
        'await eraseSessions(await logObject(env, tenant).ownersOf(runs))',
        '',
        'Standing answers of a deleted tenant stay on the disk.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/object/runs.ts',
    tests: SEALED,
    titled: 'the sealed runs and the sessions',
    lines: [
      [
        'await this.archived.archive.drop(this.archived.object)',
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
        'if (this.#archived > 0) this.tables.mark(ARCHIVED)',
        '',
        'After one new call the other runs of a sealed object look as if they had never existed.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/store.ts',
    tests: ROWS,
    lines: [
      [
        'if (this.#isSealed) throw new SealedWrite()',
        '',
        'A write to a sealed run makes all its calls unreadable.',
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
        'if (key >= first && key <= last) yield row',
        'yield row',
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
      [
        "policies: [], reason: ''",
        '',
        'The reason of a decision stays on the disk after its evidence has gone.',
      ],
      ['finished: null,', '', 'What a worker said about a call stays after its evidence has gone.'],
      [
        'settledByStanding(approval) ? { ...counted, enough: true } : counted',
        '{ ...counted, enough: true }',
        'Removing evidence frees a cap on how often people are asked.',
      ],
      ["command: '', plan: '', arguments: ''", '', 'The card of an approval shows removed arguments.'],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/removal.ts',
    tests: RETENTION,
    lines: [
      [
        'await retention.redact(approvals, forgotten)',
        '',
        'The inbox shows the arguments of a call after the rule has removed them.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/removal.ts',
    tests: REMOVED,
    lines: [
      [
        'if ((await ruleInForce())?.rule !== rule.rule) return',
        '',
        'A removal that has begun ignores a legal hold.',
      ],
      [
        'force === null || force.held.includes(archived.object)',
        'force === null',
        'A run under legal hold loses its outputs and arguments.',
      ],
      [
        'const place: Place = { ...pass, after }',
        'const place: Place = { ...pass, after, now: Date.now() }',
        'Journals are removed of calls that have no tombstones, and nothing of the object expires any more.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/object/object-store.ts',
    tests: REMOVED,
    lines: [
      [
        "left === undefined ? KEPT.length : KEPT.indexOf('evidence')",
        'KEPT.length',
        'After a removal that stopped between calls and journals, the journals stay for ever.',
      ],
    ],
  },
  {
    area: 'archives',
    file: 'edge/run/sealing/removal-store.ts',
    tests: REMOVED,
    lines: [
      [
        "if (!kinds.includes('evidence')) return",
        'if (false) return',
        'Journals are removed by a rule that keeps evidence for ever.',
      ],
      [
        "const buries = kinds.includes('evidence')",
        'const buries = true',
        'Evidence is removed by a rule that keeps it for ever.',
      ],
      ['entry.kind === REMOVED', 'false', 'A removal changes the date and the rule of an earlier one.'],
      [
        'if (buries) db.delete(attestations)',
        'if (false) db.delete(attestations)',
        'Attestations stay on the disk after the rule has removed them.',
      ],
      ['hash: owner.head })', "hash: '' })", 'The chain of a run does not go on after a removal.'],
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
