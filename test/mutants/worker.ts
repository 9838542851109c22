// Lines of the worker outside the sandbox: its checks of grants, of input from disk and network,
// and of files that it keeps.

import type { Held } from './mutant.ts'

export const WORKER: readonly Held[] = [
  {
    area: 'grants',
    file: 'worker/calls/verify-grant.ts',
    tests: ['test/worker/calls/grant.test.ts'],
    lines: [
      [
        "if (worker !== expected.worker) return stray('the grant is for another worker')",
        '',
        'A worker runs what was granted to another one.',
      ],
      [
        'facts.tenant !== tenant || facts.run !== run',
        'facts.run !== run',
        'A grant of another tenant is accepted.',
      ],
      ['|| facts.call !== call) return', ') return', 'A grant for one call runs another.'],
      [
        '|| !signedByExactly(envelope, GRANT_TYPE, new Map([[kid, key]]))',
        '',
        'An attacker who answers in the place of the edge runs anything on the worker.',
      ],
      [
        "if (expected.now_ms >= deadline_ms) return untrusted('the deadline of the grant has passed')",
        '',
        'An old grant is used again.',
      ],
      [
        'if (facts.args_sha256 !== sha256(argsText)) return',
        'if (false) return',
        'Other digests of arguments than those of the call are believed.',
      ],
      [
        'if (facts.plan_sha256 !== sha256(canonical(plan))) return',
        'if (false) return',
        'A grant names another plan than the one that runs.',
      ],
      [
        'if (facts.digest !== digest) return',
        'if (false) return',
        'Another call runs than the one that was approved.',
      ],
      [
        'if (canonical(Object.keys(secrets).sort()) !== canonical(secretsOf(plan).sort()))',
        'if (false)',
        'A tool is handed secrets that its plan, and so its approval, does not name.',
      ],
    ],
  },
  {
    area: 'grants',
    file: 'worker/queue/doorbells.ts',
    tests: ['test/worker/queue/doorbell.test.ts'],
    lines: [
      [
        'if (job.data.tenant !== tenant) return',
        'if (false) return',
        'A doorbell of another tenant makes the worker claim for that tenant.',
      ],
      [
        'splitId(call).run === run ? ok',
        'true ? ok',
        'A forged doorbell makes the worker ask for a call of another run.',
      ],
    ],
  },
  {
    area: 'files',
    file: 'worker/calls/output-files.ts',
    tests: ['test/worker/calls/collect-output-files.test.ts'],
    titled: 'S40|S41|S42|S43|S44|V01',
    lines: [
      [
        'const FILE = constants.O_RDONLY | constants.O_NOFOLLOW |',
        'const FILE = constants.O_RDONLY |',
        'A link that a tool leaves makes the worker collect a file of the host.',
      ],
      ['| constants.O_NONBLOCK |', '|', 'A FIFO that a tool leaves blocks the worker for ever.'],
      [
        'if (!stats.isFile() || stats.nlink !== 1)',
        'if (!stats.isFile())',
        'A file of somebody else, by a second name, is collected.',
      ],
      [
        'if (!stats.isFile() || stats.nlink !== 1)',
        'if (stats.nlink !== 1)',
        'A device that a tool leaves is read.',
      ],
      [
        'if (hasSecret !== false) return collected.leave',
        'if (hasSecret === undefined) return collected.leave',
        'A secret leaves the sandbox in a file.',
      ],
      ['|| pathFault(path) !== undefined)', ')', 'A file is kept under a name that means another place.'],
      ['if (masked !== path)', 'if (false)', 'A secret leaves the sandbox as the name of a file.'],
    ],
  },
  {
    area: 'files',
    file: 'worker/calls/spool.ts',
    tests: ['test/worker/calls/spool.test.ts'],
    lines: [
      [
        'before !== undefined && before.fence >= fence',
        'before !== undefined && before.fence > fence',
        'A call that began before a crash runs again.',
      ],
      [
        'constants.O_RDWR | constants.O_CREAT, 0o600)',
        'constants.O_RDWR | constants.O_CREAT, 0o644)',
        'Other users of the host read the results of calls.',
      ],
      [
        'if (fence <= until) this.#live.delete(over)',
        'if (true) this.#live.delete(over)',
        'The end of an earlier execution forgets the one that runs.',
      ],
    ],
  },
  {
    area: 'files',
    file: 'worker/calls/run-folders.ts',
    tests: ['test/worker/calls/run-folders.test.ts'],
    lines: [
      [
        "if (expected === 'kept' && !existsSync(folder)) return err('lost')",
        '',
        'A call works in an empty folder where it was approved to go on.',
      ],
      [
        'mkdirSync(folder, { recursive: true, mode: 0o700 })',
        'mkdirSync(folder, { recursive: true, mode: 0o755 })',
        'Other users of the host read the folders of runs.',
      ],
      [
        'if (bytes === undefined) this.#drop(run)',
        '',
        'One run keeps more on the worker’s disk than any of its calls may use.',
      ],
    ],
  },
  {
    area: 'workers',
    file: 'worker/config.ts',
    tests: ['test/worker/host/config.test.ts'],
    lines: [
      ['if ((mode & 0o077) !== 0)', 'if (false)', 'Other users of the host read the key of the worker.'],
      [
        "protocol === 'https:' || loopback(hostname) ?",
        "protocol !== '' || loopback(hostname) ?",
        'Arguments and secrets cross the network in the clear.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'worker/sandbox/streams/secret-mask.ts',
    tests: ['test/worker/sandbox/secret-mask.test.ts'],
    titled: 'V01',
    lines: [
      [
        'this.#emitUpTo(this.#search, Buffer.concat([this.#held, chunk]), this.#search.settled)',
        'this.#emitUpTo(this.#search, Buffer.concat([this.#held, chunk]), Number.POSITIVE_INFINITY)',
        'A secret that a tool writes in two pieces leaves the sandbox.',
      ],
      [
        'this.#at = Math.max(this.#at, to)',
        'this.#at = Math.max(this.#at, to - 1)',
        'The last byte of each secret leaves the sandbox.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'shared/secrets/encodings.ts',
    tests: ['test/worker/sandbox/secret-mask.test.ts'],
    titled: 'V01',
    lines: [
      [
        '[trails(), new Hexadecimal(pieces, trails), new Base64(pieces, trails)]',
        '[trails(), new Base64(pieces, trails)]',
        'A secret written in hexadecimal leaves the sandbox.',
      ],
      [
        '[trails(), new Hexadecimal(pieces, trails), new Base64(pieces, trails)]',
        '[trails(), new Hexadecimal(pieces, trails)]',
        'A secret written in base64 leaves the sandbox.',
      ],
      [
        '[...plain(), new Decimal(trails()), new Unescaping(plain())]',
        '[...plain(), new Decimal(trails())]',
        'A secret with escapes in it leaves the sandbox.',
      ],
    ],
  },
]
