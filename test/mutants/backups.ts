// Lines that decide what a backup holds, where it may be restored, and what may run afterwards.

import type { Held } from './mutant.ts'

const BACKUP = ['test/faults/backup/backup.test.ts']
const PAUSE = ['test/cli/host/stopped-edge.test.ts']

export const BACKUPS: readonly Held[] = [
  {
    area: 'backups',
    file: 'edge/run/commands/end-calls-of-backup.ts',
    tests: BACKUP,
    titled: 'L2 a call that ran',
    lines: [['!== restores)', '!== restores && false)', 'A call that ran after the backup runs again.']],
  },
  {
    area: 'backups',
    file: 'edge/run/run-object.ts',
    tests: BACKUP,
    titled: 'L2 a call that ran',
    lines: [['if (restores > 0) void', 'if (false) void', 'A call that ran after the backup runs again.']],
  },
  {
    area: 'backups',
    file: 'edge/run/transaction.ts',
    tests: BACKUP,
    titled: 'agents can propose calls in the old runs',
    lines: [
      [
        'this.#restores === 0 ? proposal :',
        'this.#restores >= 0 ? proposal :',
        'After a restore, each restart of the edge ends every call that is under way.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'edge/call/endings.ts',
    tests: ['test/edge/call/table.test.ts'],
    lines: [
      [
        "const next = endedStatus('indeterminate', status, now, {\n    error: 'restored',",
        "const next = endedStatus('cancelled', status, now, {\n    error: 'restored',",
        'Evidence says of a call that may have run that it did not.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'edge/installation/installation-object.ts',
    tests: BACKUP,
    titled: 'the journal of the installation',
    lines: [
      [
        'if (restore === null) return',
        'if (true) return',
        'The log goes back, and nothing says who wanted that.',
      ],
      [
        'for (const one of [...earlier, latest])',
        'for (const one of [latest])',
        'The log goes back, and a second restore hides who wanted that.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/manifest.ts',
    tests: BACKUP,
    titled: 'a restore is refused',
    lines: [
      [
        'if (!signedByExactly(sealed.data, TYPE, new Map([[key.kid, key.x]]))) return err(damaged)',
        '',
        'Somebody who can write the backup decides which operators the installation has.',
      ],
      [
        'const key = keys.find(({ kid }) => kid === sealed.data.signatures[0]?.keyid)',
        'const key = keys[0]',
        'An operator is told that the backup is damaged, when it is of another installation.',
      ],
      [
        'countersign-[a-z]{1,32}\\/[0-9a-z]{1,64}\\.sqlite$/',
        '[^]*/',
        'A restore writes outside of the state folder.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/restore.ts',
    tests: BACKUP,
    titled: 'a restore is refused|a second restore|without a reason only|the reasons of restores',
    lines: [
      [
        'return unknown === undefined ? undefined',
        'return true ? undefined',
        'An old edge misreads newer storage.',
      ],
      ['if (server !== undefined)', 'if (false)', 'The storage of a running edge is replaced under it.'],
      [
        'if (replace || !existsSync(objects)',
        'if (true || !existsSync(objects)',
        'A restore replaces storage that nobody wanted to lose.',
      ],
      [' || found.sha256 !== sha256', '', 'Changed files of a backup become the storage.'],
      [
        'return [...earlier, last].filter(',
        'return [last].filter(',
        'The log goes back, and a third restore hides who wanted that.',
      ],
      [
        'rollback !== null && !journalled.has(restored_at_ms)',
        'false',
        'The log goes back, and a second restore hides who wanted that.',
      ],
      ['if (logs.length === 0)', 'if (false)', 'The log goes back, and nobody has said why.'],
      ['if (own.root !== last.root)', 'if (false)', 'The log goes back, and nobody has said why.'],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/installation.ts',
    tests: BACKUP,
    titled: 'is taken while the edge runs',
    lines: [
      [
        'lists.has(fileId(fd)) && isWritable(fd)',
        'false',
        'A running edge is not noticed, and the backup is no cut.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/stopped-edge.ts',
    tests: PAUSE,
    lines: [
      [
        "process.kill(pid, 'SIGSTOP')",
        'process.kill(pid, 0)',
        'A log of the backup has ends that no run of it has.',
      ],
      [
        'return Date.now() < until && pids.every(isStopped) ? result : undefined',
        'return result',
        'Files of different moments pass for a backup.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/resume.ts',
    tests: PAUSE,
    lines: [
      [".on('end', resume)", '', 'A backup that is killed leaves the edge stopped for seconds.'],
      [
        'setTimeout(resume, LIMITS.backup_pause_ms)',
        '',
        'A backup that hangs on its disk stops every call of the installation.',
      ],
    ],
  },
]
