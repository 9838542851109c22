// Lines that keep the runs of one object apart, and lead a key to its run.

import type { Held } from './mutant.ts'

const SHARED = ['test/edge/run/shared-object.test.ts']

export const RUNS: readonly Held[] = [
  {
    area: 'evidence',
    file: 'edge/platform/object-tables.ts',
    tests: ['test/edge/platform/schemas.test.ts'],
    lines: [
      [
        'this.#known = undefined',
        '',
        'After a transaction that was rolled back, a run takes its tables for made and serves nothing more.',
      ],
      [
        'if (!this.has(name)) sql.exec(statement)',
        '',
        'An upgrade ends the objects that lack a table, and nobody can read their evidence.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/store.ts',
    tests: SHARED,
    lines: [
      [
        "rowsOf: (column) => between(column, p('first'), p('last')),",
        'rowsOf: () => undefined,',
        'Cancelling a run cancels the calls of other runs in its object.',
      ],
      [
        'this.#isShared ? `',
        'false ? `',
        'A key that one run of an object has received can’t be used in another.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/file-store.ts',
    tests: SHARED,
    titled: 'own files',
    lines: [
      [
        'return number === null ? digest :',
        'return true ? digest :',
        'A call gets the file that was put into another run.',
      ],
      [
        'return number === null ? undefined : and(',
        'return true ? undefined : and(',
        'An agent reads which files another run of its object holds.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/object/object-store.ts',
    tests: SHARED,
    titled: 'L2 a key finds its run',
    lines: [
      [
        'this.next >= LIMITS.runs_per_object',
        'false',
        'An object takes runs until the platform refuses to store more.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/run/object/object-store.ts',
    tests: SHARED,
    titled: 'a call has its snapshot',
    lines: [
      [
        '    this.tables.forget()\n    this.snapshotsRemoved()',
        '    this.tables.forget()',
        'After a failed transaction, calls name a snapshot that nobody can read.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/run/sealing/removal-store.ts',
    tests: ['test/edge/call/removal.test.ts'],
    lines: [
      [
        'store.snapshotsRemoved()',
        '',
        'After evidence was removed, later calls name a snapshot that nobody can read.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/decision/snapshot.ts',
    tests: SHARED,
    titled: 'the snapshot of a call has',
    lines: [
      [
        'version, digest, run.budget])',
        'version, digest])',
        'The evidence of a call names the budget of another run.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/outbox.ts',
    tests: ['test/faults/crowd.test.ts'],
    titled: 'a run’s call beyond its share',
    lines: [
      [
        'return local.isFull({ agent, run: id }, Date.now())',
        'return false',
        'An agent fills the queue of a pool without bound.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/commands/propose.ts',
    tests: SHARED,
    titled: 'L2 two keys that lead to one id',
    lines: [
      [
        'row.calls > 0 && (key === null || run.store.callByKey(key) === undefined)',
        'false',
        'A key of a bulk client is refused, or its call spends the budget of another key’s run.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/object/runs.ts',
    tests: SHARED,
    titled: 'a due call that can’t be read',
    lines: [
      [
        'this.store.postpone(id, this.#backoff.failed(id, Date.now()))',
        'throw thrown',
        'A damaged call keeps the ends of other calls out of the log.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/object/log-delivery.ts',
    tests: SHARED,
    titled: 'an ended call that can’t be read',
    lines: [
      [
        'size = 1 // one of them may fail alone',
        'break',
        'A damaged call keeps the ends of other calls out of the log.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/find-run.ts',
    tests: SHARED,
    titled: 'L2 a key finds its run',
    lines: [
      [
        '(key !== null && at < since)',
        'false',
        'A call that was proposed before an upgrade runs again when its key is sent after it.',
      ],
    ],
  },
  {
    area: 'runs',
    file: 'edge/run/context.ts',
    tests: SHARED,
    titled: 'the log has the end of each run',
    lines: [
      [
        'if (isSharedRun(this.id)) this.#store',
        'if (false) this.#store',
        'After each restart an object sends the ends of all its calls to the log again.',
      ],
    ],
  },
]
