// Lines that count what calls leave, and refuse more once the tenant's storage is used up.

import type { Held } from './mutant.ts'

const LEFT = {
  tests: ['test/edge/tenant/tenants-quota.test.ts'],
  titled: 'D18 a tenant whose calls have used up',
}
const FILLS = 'One tenant fills the disk of all tenants with what its calls leave.'
const NO_SESSION = {
  tests: ['test/edge/tenant/tenants-deleted.test.ts'],
  titled: 'D18 no object is made for a session',
}

export const STORAGE: readonly Held[] = [
  {
    area: 'tenants',
    file: 'edge/tenant/storage-quota.ts',
    ...LEFT,
    lines: [['return all < quota ? ok(true)', 'return true ? ok(true)', FILLS]],
  },
  {
    area: 'tenants',
    file: 'edge/tenant/calls-stored.ts',
    tests: ['test/edge/tenant/calls-stored.test.ts'],
    lines: [
      [
        'return this.#isYounger(OLD_MS, now) ?',
        'return true ?',
        'While the log is down, one tenant fills the disk of all tenants.',
      ],
      [
        'Math.abs(now - this.#at)',
        'now - this.#at',
        'After the clock was set back, one tenant fills the disk of all tenants.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/log/object-size-store.ts',
    ...LEFT,
    lines: [
      [
        'live: after.live - before.live,',
        'live: after.live,',
        'Reports that repeat a size use up the quota of a tenant.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/run/object/log-delivery.ts',
    ...LEFT,
    lines: [['ownBytes === this.#reported ?', 'true ?', FILLS]],
  },
  {
    area: 'tenants',
    file: 'edge/run/object/log-delivery.ts',
    tests: ['test/faults/archive.test.ts'],
    titled: 'D18 the tenant’s storage counts a sealed run',
    lines: [
      [
        'live: EMPTY_FILE_BYTES, sealed',
        'live: EMPTY_FILE_BYTES + 2 ** 20, sealed',
        'A tenant never gets its room back.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/run/commands/propose.ts',
    ...LEFT,
    lines: [
      [
        'if (tx.row === undefined && !counted.ok) return counted',
        '',
        'Refused calls of one tenant fill the disk.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/run/run-object.ts',
    ...LEFT,
    lines: [['if (!room.ok) return room', '', 'Runs without calls of one tenant fill the disk.']],
  },
  {
    area: 'tenants',
    file: 'edge/run/commands/claim.ts',
    ...LEFT,
    lines: [
      [
        'if (!facts.room.ok) return facts.room',
        '',
        'Ten thousand waiting calls of one tenant run, and fill the disk.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/api/dry-run.ts',
    ...NO_SESSION,
    lines: [['return isUsed ?', 'return true ?', 'An agent fills the disk with empty objects by dry runs.']],
  },
  {
    area: 'tenants',
    file: 'edge/api/standing-approvals.ts',
    ...NO_SESSION,
    lines: [['return ok({ ended: 0 })', '{}', 'An agent fills the disk with empty objects by resets.']],
  },
  {
    area: 'tenants',
    file: 'edge/session/session-object.ts',
    ...NO_SESSION,
    lines: [
      [
        'if (bytes === this.#reported) return',
        'return',
        'Sessions of one tenant fill the disk, and dry runs ignore their usage.',
      ],
    ],
  },
]
