// Lines that decide whether evidence is stored elsewhere before it is removed, and where it goes.

import type { Held } from './mutant.ts'

const BUCKET = ['test/edge/export/bucket.test.ts']
const EXPORTS = ['test/edge/export/exports.test.ts']
const REMOVAL = ['test/faults/export.test.ts']

export const EXPORTED: readonly Held[] = [
  {
    area: 'exports',
    file: 'edge/export/bucket.ts',
    tests: BUCKET,
    lines: [
      ['if (fault !== undefined) return', 'if (false) return', 'The access key goes to a private address.'],
      ["redirect: 'manual'", "redirect: 'follow'", 'Evidence goes where a redirect points.'],
      [
        'status === 200 && answer.value.checksum === checksum',
        'status === 200',
        'Evidence is removed although the store has other bytes.',
      ],
      [
        'status === 200 || status === 412 ?',
        'status === 412 ? ok(true) : status === 200 ?',
        'Somebody who stores an object under the name first replaces the evidence.',
      ],
      ['answer.value.body.equals(bytes)', 'true', 'Evidence that somebody has changed counts as stored.'],
      ["'if-none-match': '*',", '', 'An object of the bucket is replaced.'],
      ["'x-amz-checksum-sha256': checksum,", '', 'A store keeps bytes that have changed on their way to it.'],
      ['if (size >= most) break', '', 'A store fills the memory of the edge with one answer.'],
      ['byteLength + 1', 'byteLength', 'Evidence to which somebody has added bytes counts as stored.'],
    ],
  },
  {
    area: 'exports',
    file: 'edge/export/target.ts',
    tests: EXPORTS,
    titled: 'its secret is never shown',
    lines: [
      [
        'shown: { ...bucket, put_by',
        'shown: { ...bucket, secret_access_key, put_by',
        'An auditor reads the secret of the access key.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'edge/api/exports.ts',
    tests: EXPORTS,
    lines: [['if (!works.ok) return works', '', 'A target that can receive nothing is kept.']],
  },
  {
    area: 'exports',
    file: 'edge/run/object/runs.ts',
    tests: REMOVAL,
    titled: 'the runs of a deleted tenant stay',
    lines: [
      ['await exportBeforeRemoval(this)', 'await undefined', 'The evidence of a deleted tenant is gone.'],
    ],
  },
  {
    area: 'exports',
    file: 'edge/run/sealing/removal.ts',
    tests: REMOVAL,
    titled: 'evidence that a rule no longer keeps',
    lines: [
      ['await exportBeforeRemoval(runs)', 'await undefined', 'The only copy of the evidence is removed.'],
    ],
  },
  {
    area: 'exports',
    file: 'edge/installation/installation-object.ts',
    tests: REMOVAL,
    titled: 'a tenant whose store gives no answer',
    lines: [
      [
        'this.ctx.waitUntil(this.#eraseTenant',
        'void this.ctx.blockConcurrencyWhile(async () => this.#eraseTenant',
        'The slow store of one tenant keeps the data of all other deleted tenants.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'edge/run/object/export.ts',
    tests: REMOVAL,
    titled: 'the runs of a deleted tenant stay',
    lines: [['if (!stored.ok) throw', 'if (false) throw', 'Evidence that the store has refused is removed.']],
  },
  {
    area: 'exports',
    file: 'cli/calls/verify-object.ts',
    tests: EXPORTS,
    titled: 'the command line exports',
    lines: [
      ['basename(path) === name', 'true', 'A changed file passes verification.'],
      ['journal.seq > 0', 'false', 'The end of a journal is missing, and nothing says so.'],
      ['if (!ids.has(run)) this', 'if (false) this', 'A journal without its head passes verification.'],
      ['for (const id of this.#unmatched())', 'for (const id of [])', 'A withheld call goes unnoticed.'],
      [
        'facts.call !== call || statement.predicate.state !== state',
        'false',
        'A failed call is shown as another.',
      ],
      ['failed !== undefined', 'false', 'A forged attestation passes verification.'],
    ],
  },
  {
    area: 'exports',
    file: 'cli/calls/verify-object.ts',
    tests: ['test/cli/calls/verify-export.test.ts'],
    lines: [
      [
        "|| tombstone.of === 'parts'",
        '',
        'The tombstone of an output passes for that of the evidence, and ends a run.',
      ],
      ['!isKept && !isGone', 'false', 'Anybody removes an output from an export and names the rule.'],
      [
        'seq > (this.#removedUpTo.get(run) ?? 0)',
        'false',
        'The entry that ended a call is missing, and nothing says so.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'shared/evidence/removal.ts',
    tests: ['test/cli/calls/verify-export.test.ts'],
    lines: [
      [
        '|| !signedByExactly(envelope, TOMBSTONE_TYPE, new Map([[kid, x]]))',
        '',
        'A forged tombstone hides evidence.',
      ],
      ['&& read.data.tenant === keys.tenant', '', 'A tombstone of another tenant hides a call.'],
    ],
  },
  {
    area: 'exports',
    file: 'shared/evidence/removal.ts',
    tests: ['test/shared/bundles/statement.test.ts'],
    lines: [
      [
        'read.call === call && read.digest === digest',
        'true',
        'The tombstone of one call removes the arguments of another.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'cli/calls/verify-object.ts',
    tests: ['test/edge/export/log-export.test.ts'],
    titled: 'the log is exported and verified|a folder in which a call is missing',
    lines: [
      ['if (claimed.hasEnded)', 'if (false)', 'A call that ended twice passes verification.'],
      ['if (claimed.isClaimed)', 'if (false)', 'A call that was claimed twice passes verification.'],
    ],
  },
  {
    area: 'exports',
    file: 'cli/log/checkpoints.ts',
    tests: ['test/cli/log/verify-log.test.ts', 'test/cli/log/forks.test.ts'],
    lines: [
      [
        "origin.slice(origin.indexOf('/') + 1) !== keys.tenant",
        'false',
        'The log of another tenant passes for this one.',
      ],
      ['undatedEdgeKeys(keys)', 'keys.keys', 'A worker, or whoever stole an old key, signs a log.'],
      [
        "keys.keys.filter(({ role }) => role === 'edge')",
        'undatedEdgeKeys(keys )',
        'After a distrust no log can be compared with the head that was seen before.',
      ],
      [
        "({ role }) => role === 'edge'",
        '() => true',
        'A worker signs the head that the log is compared with.',
      ],
      [
        'head.size < one.size ? ok(false) :',
        'head.size < one.size ? ok(true) :',
        'A rollback goes unnoticed.',
      ],
      ['verifyConsistency({', 'Boolean({', 'A forked log goes unnoticed.'],
      ['seen.success && head.ok', 'seen.success', 'A kept checkpoint is replaced without notice.'],
      [
        'if (seen.ok && heads',
        'if (seen.ok && seen.value.origin === origin && heads',
        'A log that was replaced under a new name is taken for a new log.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'cli/log/witnesses.ts',
    tests: ['test/cli/log/verify-log.test.ts'],
    lines: [
      ['if (continued.value) return', 'return', 'The cosignature of a fork vouches for the log.'],
      [
        'if (later.value.origin !== head.origin) continue',
        '',
        'The cosignature of another log vouches for this one.',
      ],
    ],
  },
  {
    area: 'exports',
    file: 'cli/log/verify-log.ts',
    tests: ['test/cli/log/verify-log.test.ts', 'test/cli/log/forks.test.ts'],
    lines: [
      ['if (missing > 0)', 'if (false)', 'The log lacks a call, and nothing says so.'],
      ["if (what === '')", 'if (false)', 'A call that is in the log twice passes verification.'],
      ['index >= before.value.size', 'true', 'A call that was withheld from the export goes unnoticed.'],
      [
        'if (log.rootOf(size) !== root)',
        'if (false)',
        'The entries are others than those that the edge signed.',
      ],
      ['if (forked !== undefined)', 'if (false)', 'A forked log passes verification.'],
      ['evidence.isLive || size', 'size', 'A live log that was rolled back passes verification.'],
      ['if (!chain.ok) fail', 'if (false) fail', 'A rewritten journal of the tenant passes verification.'],
    ],
  },
  {
    area: 'exports',
    file: 'shared/evidence/tiles.ts',
    tests: ['test/shared/log/tiles.test.ts'],
    lines: [
      [
        'tilePath(tile) === path',
        'true',
        'A tile has several addresses, so caches keep different bytes for it.',
      ],
      ['entryBundle(hashes).equals(bytes)', 'true', 'Bytes that no leaf covers are hidden in a bundle.'],
    ],
  },
]
