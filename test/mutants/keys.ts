// Lines about signing keys: the chain from one edge key to the next, and the time in which each counts.

import type { Held } from './mutant.ts'

export const KEYS: readonly Held[] = [
  {
    area: 'signatures',
    file: 'shared/evidence/keys.ts',
    tests: ['test/shared/keys/edge-keys.test.ts'],
    lines: [
      [
        'return signedByExactly(envelope, LINK_TYPE, all) ? read.data : undefined',
        'return read.data',
        'Anybody introduces a key of their own as the edge’s next one.',
      ],
      ['new Map([follows, key, ', 'new Map([key, ', 'A new key introduces itself.'],
      ['|| read.data.follows !== follows', '', 'A link that another key has signed continues the chain.'],
      ['if (keys.some(({ x }) => x === link.key))', 'if (false)', 'A retired or distrusted key comes back.'],
      [
        'link.from_ms < last.from_ms || link.until_ms < link.from_ms',
        'false',
        'A link changes the past: a key signs before the one that introduced it.',
      ],
      [
        'Math.min(from_ms, known.distrusted_from_ms ?? from_ms)',
        'from_ms',
        'A later link gives back trust in what a thief has signed.',
      ],
      [
        'if (canonical(led.value) !== canonical(edges))',
        'if (false)',
        'Whoever serves the keys adds one, or leaves out that one is distrusted.',
      ],
      ['keys.some(({ kid, x }) => kid !== kidOf(x))', 'false', 'A key is listed under the id of another.'],
      [
        'first(pinned) !== first(fetched) ||',
        '',
        'The keys of another edge pass as those of the one that was trusted.',
      ],
      [
        'canonical(start) !== canonical(pinned.chain)',
        'false',
        'A rival chain replaces links that were seen before.',
      ],
      [
        'if (pinned.tenant !== fetched.tenant)',
        'if (false)',
        'The workers of one tenant vouch for another’s.',
      ],
      ['&& one.worker === worker', '', 'A worker signs in the place of another one.'],
      [
        'if (signed.after_ms >= distrusted_from_ms)',
        'if (false)',
        'A thief of a key signs evidence after the theft is known.',
      ],
      [
        'if (signed.after_ms > (until_ms ?? Number.POSITIVE_INFINITY) + LIMITS.clock_slack_ms)',
        'if (false)',
        'A retired key signs on.',
      ],
      [
        'if ((signed.before_ms ?? Number.POSITIVE_INFINITY) < from_ms - LIMITS.clock_slack_ms)',
        'if (false)',
        'A new key signs grants of the time before it.',
      ],
      ["&& status !== 'distrusted'", '', 'A thief of a key signs the head of the log.'],
    ],
  },
  {
    area: 'secrets',
    file: 'shared/evidence/key-ring.ts',
    tests: ['test/shared/keys/edge-keys.test.ts'],
    lines: [
      [
        'link.distrusts === null ? {} : { root: newSecret() }',
        '{}',
        'A thief of the edge’s key forges links, marks and webhooks after it was replaced.',
      ],
      [
        'keys.value.at(-1)?.x === signing.x ?',
        'true ?',
        'The edge signs with a key to which no chain leads, and its evidence is refused.',
      ],
      [
        'chain.length + 1 >= LIMITS.edge_keys_rotated',
        'chain.length + 1 >= LIMITS.edge_keys',
        'Rotations use up the keys of an edge, and a stolen one can’t be replaced.',
      ],
      [
        'vaults.length >= LIMITS.vault_keys_rotated',
        'vaults.length >= LIMITS.vault_keys',
        'Rotations leave no place for the new key of secrets that a distrust brings.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'shared/evidence/key-ring.ts',
    tests: ['test/cli/host/root-signer.test.ts'],
    lines: [
      [
        'if (!isSignedBy(x, bytes, signature.value))',
        'if (false)',
        'A bridge that signs with another key ends the chain, and the edge has no key that counts.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'shared/evidence/keys.ts',
    tests: ['test/cli/host/root-signer.test.ts'],
    lines: [
      [
        'if (root !== undefined && named !== root) return undefined',
        '',
        'A thief of the edge’s key introduces a key of their own, without the root.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'cli/host/root-signer.ts',
    tests: ['test/cli/host/root-signer.test.ts'],
    lines: [
      ["redirect: 'error',", '', 'Whoever answers for the bridge sends its token elsewhere.'],
      ['if (bytes > LIMITS.root_signer_bytes)', 'if (false)', 'A bridge answers without end.'],
      [
        'if (root !== undefined && signer.value?.x !== root)',
        'if (false)',
        'A rotation without the root leaves the edge with a chain that nobody accepts.',
      ],
      [
        "address?.protocol === 'https:' ||",
        'address !== null ||',
        'The token of the bridge crosses the network in the clear.',
      ],
    ],
  },
  {
    area: 'workers',
    file: 'edge/tenant/worker-store.ts',
    tests: ['test/edge/workers/identity.test.ts'],
    titled: 'T03 K01',
    lines: [
      [
        'if (next === undefined) return former.some(',
        'if (false) return former.some(',
        'A worker takes a key that somebody else has, and signs in their place.',
      ],
      [
        'Math.min(row.distrustedFrom, distrustedFrom ?? row.distrustedFrom)',
        'distrustedFrom',
        'A second revocation gives back trust in what a thief has signed.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'edge/call/settlement.ts',
    tests: ['test/shared/contradictions.test.ts'],
    titled: 'T03',
    lines: [
      [
        'if (execution.ended_at_ms > (worker.until_ms ?? Number.POSITIVE_INFINITY) + LIMITS.clock_slack_ms)',
        'if (false)',
        'The edge countersigns a statement of a replaced key, which every verifier refuses.',
      ],
    ],
  },
  {
    area: 'grants',
    file: 'worker/link/edge-keys.ts',
    tests: ['test/worker/link/edge-keys.test.ts'],
    lines: [
      ['if (!led.ok) return led', '', 'A worker stops when an edge sends it a broken chain.'],
      ["status === 'retired' &&", '', 'A worker obeys grants of a distrusted key.'],
      ['root: led.value.root', 'root: undefined', 'A worker forgets the root.'],
      [
        'before === undefined ? pinned.before :',
        'before === undefined ? undefined :',
        'A worker that learns the root refuses grants of the key before, which still count.',
      ],
      [
        '      patience,',
        '      { ...patience, patience_ms: 0 },',
        'One lost answer after a rotation makes the worker refuse a call for good.',
      ],
    ],
  },
  {
    area: 'grants',
    file: 'worker/calls/call.ts',
    tests: ['test/worker/calls/call-life.test.ts'],
    titled: 'a call under a new edge key',
    lines: [
      [
        'inFlight.fence = fence //',
        '//',
        'A call that waits for the edge’s key loses its lease, and runs although it has ended.',
      ],
      ['signal.aborted\n', 'false\n', 'A cancelled call counts as one whose grant was forged.'],
    ],
  },
  {
    area: 'grants',
    file: 'shared/evidence/keys.ts',
    tests: ['test/worker/link/edge-keys.test.ts'],
    lines: [
      [
        'if (start.root !== undefined && next.length > 0 && rootOf(next) !== start.root)',
        'if (false)',
        'A thief of the pinned key leaves out the links that name the root, and workers obey.',
      ],
      [
        "if (at < 0) return err('none of its keys is the pinned one')",
        '',
        'A worker obeys a key to which its pinned one does not lead.',
      ],
    ],
  },
  {
    area: 'grants',
    file: 'worker/link/key-rotation.ts',
    tests: ['test/worker/link/key-rotation.test.ts'],
    lines: [
      [
        'if (next.value.x === identity.value.signer.x)',
        'if (false)',
        'A rotation that was killed at its end makes every later one fail.',
      ],
      [
        'existsSync(draftPath(config.home)) ? rotateKey(config)',
        'false ? rotateKey(config)',
        'A worker signs with a key that its edge has replaced, and all its results are lost.',
      ],
    ],
  },
  {
    area: 'grants',
    file: 'worker/link/enrolment.ts',
    tests: ['test/worker/link/edge-keys.test.ts'],
    lines: [
      [
        'followed.ok ? followed.value : { edge }',
        '{ edge }',
        'A new worker has no root until its first start, so a thief of the edge’s key can lead it away.',
      ],
    ],
  },
  {
    area: 'backups',
    file: 'cli/host/manifest.ts',
    tests: ['test/cli/host/manifest.test.ts'],
    lines: [
      [
        'manifest.data.cut_at_ms < (key.distrusted_from_ms ?? Number.POSITIVE_INFINITY)',
        'true',
        'A thief of the edge’s key signs a backup, which is restored.',
      ],
    ],
  },
]
