// Lines that decide which heads of logs a witness cosigns, and which cosignatures count.

import type { Held } from './mutant.ts'

const NOTES = ['test/shared/checkpoint.test.ts']
const COSIGNATURES = ['test/edge/log/cosignature.test.ts']
const WITNESS = ['test/cli/witness/witness.test.ts']

export const WITNESSES: readonly Held[] = [
  {
    area: 'evidence',
    file: 'shared/evidence/note.ts',
    tests: NOTES,
    lines: [
      [
        "bytes.toString('base64') !== text) return undefined",
        'false) return undefined',
        'A signed head has several spellings.',
      ],
      [
        'if (lines.length > SIGNATURE_LINES)',
        'if (false)',
        'A note with thousands of signatures stalls its verifier.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/cosignature.ts',
    tests: COSIGNATURES,
    lines: [
      [
        'return isValid ? [Number(at_s) * 1_000] : []',
        'return [Number(at_s) * 1_000]',
        'Anybody cosigns for a witness.',
      ],
      ['byKey.set(witness.x,', 'byKey.set(witness.name,', 'One witness with two names counts as two.'],
      [
        "if (keyId(COSIGNATURE_V1, witness).toString('hex') !== id)",
        'if (false)',
        'A verifier trusts a key that was changed while it was copied.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'cli/witness/witness.ts',
    tests: WITNESS,
    lines: [
      [
        'if (!keys.some((x) => verifyCheckpoint(note, origin, x).ok))',
        'if (false)',
        'Anybody makes the witness cosign a head, after which the true log is refused.',
      ],
      [
        'if (old > size)',
        'if (false)',
        'A smaller log of the past gets another answer than the protocol has.',
      ],
      ['if (old !== last.size)', 'if (false)', 'A log that was rolled back is cosigned.'],
      [
        'if (size === old && root !== last.root)',
        'if (false)',
        'A client can’t tell a fork from a bad proof.',
      ],
      [
        'if (!verifyConsistency({ m: old, rootM: last.root, n: size, rootN: root, proof }))',
        'if (false)',
        'A log whose past was rewritten is cosigned.',
      ],
      ['this.#state.keep(origin, note, now)', '', 'The witness forgets what it cosigned.'],
      [
        'if (old === 0 && this.#state.count >= LIMITS.witness_logs)',
        'if (false)',
        'The operator of one edge fills the disk of a witness with heads of tenants.',
      ],
      [
        "log.origin.endsWith('/') ? origin.startsWith(log.origin)",
        'true ? origin.startsWith(log.origin)',
        'The key of one log signs others whose names begin alike.',
      ],
      [
        'if (lines.length > LIMITS.witness_proof_lines)',
        'if (false)',
        'A request has a longer proof than any log.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'cli/witness/log-keys.ts',
    tests: WITNESS,
    lines: [
      [
        'now < this.#askedAt + LIMITS.witness_keys_pause_ms',
        'false',
        'Anybody makes a witness flood an edge.',
      ],
      ['!distrusted.includes(x)', 'true', 'The thief of a key goes on showing heads to witnesses.'],
      [
        'keysFrom({ x, root }, document)',
        'keysFrom({ x }, document)',
        'A thief of the edge’s key leads a witness away.',
      ],
      [
        'if (bytes > LIMITS.body_bytes)',
        'if (false)',
        'Whoever answers for the edge takes all memory of the witness.',
      ],
      [
        'this.#state.keepLearned(this.#log.origin, learned)',
        '',
        'A witness that starts again trusts a distrusted key.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'cli/witness/state-folder.ts',
    tests: WITNESS,
    lines: [
      [
        "error.code === 'EADDRINUSE' ? resolve(undefined) : reject(error)",
        "error.code === 'EADDRINUSE' ? resolve(server) : reject(error)",
        'Two witnesses on one folder cosign two heads that contradict each other.',
      ],
      [
        'if ((statSync(file).mode & 0o077) !== 0)',
        'if (false)',
        'Others on the host read the key and cosign.',
      ],
      [
        'if (kept?.success !== true || head?.ok !== true)',
        'if (false)',
        'A damaged disk makes the witness forget a head.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'cli/witness/server.ts',
    tests: WITNESS,
    lines: [
      [
        'if (bytes > LIMITS.witness_body_bytes)',
        'if (false)',
        'One request takes all memory of the witness.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/log/witness-client.ts',
    tests: ['test/edge/log/witnessing.test.ts'],
    lines: [
      [
        'if (fault !== undefined)',
        'if (false)',
        'The setting makes the edge send requests into its private network.',
      ],
      [
        'if (cosignature !== undefined)',
        "return { kind: 'cosigned', line, at_ms: 0 }\n      if (cosignature !== undefined)",
        'Whoever answers in the place of a witness passes for it.',
      ],
      [
        "if (status === 422) return { kind: 'contradicted',",
        "if (status === 422) return { kind: 'failed', why: '' } as never\n  if (status === -1) return { kind: 'contradicted',",
        'A fork that a witness has found looks like a witness that is down.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/log/witnessing.ts',
    tests: ['test/edge/log/witnessing.test.ts'],
    lines: [
      [
        "if (answer.kind === 'has' && answer.size > size)",
        'if (false)',
        'The edge runs on the state of yesterday, and nobody is told.',
      ],
      [
        'if (log.tree.size > 0) this.#arm()',
        '',
        'The state of yesterday is not noticed until the next call.',
      ],
      [
        'if (before?.refusal !== refused.reason) this.#report(witness.name, refused.detail)',
        '',
        'The log of the edge does not say that it was rolled back.',
      ],
      [
        'this.#log.store.put(key, { due: soon })',
        '{}',
        'A witness that was down is shown what happens in the next day only at its end.',
      ],
      [
        'LIMITS.witness_pause_max_ms)',
        'LIMITS.witness_pause_grown_ms)',
        'A witness that never comes back wakes each log for ever, every five minutes.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/witnesses.ts',
    tests: ['test/edge/log/witnessing.test.ts'],
    lines: [
      [
        'new Set(all.map(({ witness }) => witness.x)).size === all.length',
        'true',
        'One witness that is named twice counts as two.',
      ],
    ],
  },
]
