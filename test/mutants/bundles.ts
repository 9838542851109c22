// Mutants of the verification of bundles: snapshot, journal and log.

import type { Held } from './mutant.ts'

export const BUNDLES: readonly Held[] = [
  {
    area: 'evidence',
    file: 'shared/evidence/bundle.ts',
    tests: ['test/shared/bundles/bundle.test.ts'],
    lines: [
      ['evidence, keys, entries.at(-1)?.at_ms)', 'evidence, keys)', 'A worker reports an end in the future.'],
      [
        'path.length === 1 && path[0] === tenant',
        'true',
        'The log of another tenant of the same edge proves an end.',
      ],
      [
        'const signed = isOfTenant && head?.ok === true',
        'const signed = true',
        'Anybody signs the head of a log.',
      ],
      [
        'verifyInclusion({ leaf, index, proof, ...head.value })',
        'true',
        'An end that the log does not have passes as logged.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/journal-checks.ts',
    tests: ['test/shared/bundles/bundle.test.ts'],
    lines: [
      [
        'const isApart = last.seq - first.seq >= LIMITS.bundle_entries',
        'const isApart = true',
        'Entries of the call are cut out of its journal.',
      ],
      ['if (!chain.ok)', 'if (false)', 'Entries of a journal are rewritten.'],
      ['first?.call === call &&', '', 'A journal begins after the proposal of its call.'],
      [
        "isSame(members(first, 'tool', 'version', 'origin'), {",
        'isSame({ tool: tool.name, version: tool.version, origin }, {',
        'Another tool, or another actor, proposed the call.',
      ],
      [
        "isSame(members(edited ?? first, 'digest', 'args_sha256'), { digest, args_sha256 })",
        'true',
        'Something else was proposed than what was approved.',
      ],
      ['at_ms >= expires_at', 'false', 'An answer after the deadline counts.'],
      [
        "kind === 'edited' ? [body] : [",
        'false ? [body] : [',
        'An answer to other arguments counts for those that ran.',
      ],
      [
        "if (claim !== null || entry.body['fence'] !== fence) return undefined",
        '',
        'Two workers hold the call at once.',
      ],
      ["if (entry.kind === 'worker_lost') claim = null", '', 'A worker that was lost attests the call.'],
      ['ends[0] === last &&', '', 'A call that has ended ends a second time.'],
      [
        "(last.kind === state || (last.kind === 'withdrawn' && state === 'cancelled')) &&",
        '',
        'A failed call is attested as one that succeeded.',
      ],
      ['i > claimed && ', '', 'A wish to cancel from before the claim lets a worker discard its result.'],
      [
        "execution.outcome?.kind !== 'cancelled' || isWanted",
        'true',
        'A worker discards a result, and says that somebody wanted it to.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/policy-snapshot.ts',
    tests: ['test/shared/bundles/bundle.test.ts'],
    lines: [
      ['digestOf(snapshot) === decision.snapshot &&', '', 'Other policies are shown than those in force.'],
      ["effect === 'deny' && policies.length === 0", 'true', 'A call is shown under an older policy set.'],
      ['!isAllowed || canonical', 'canonical', 'An agent ran a tool that was not its own.'],
      ['runner.tiers.includes(plan.tier) &&', '', 'A call ran in a tier that its tool does not allow.'],
      ['runner.workspace === plan.workspace &&', '', 'A call shared a folder against its contract.'],
      ['reaches(runner.allowed_hosts) &&', '', 'A call reached hosts that its tool does not list.'],
      ['isAmong(runner.secrets, secretsOf(plan)) &&', '', 'A call received a secret of another tool.'],
      ['(limit ?? 0) <= (most[name] ?? 0)', 'true', 'A call had more time than its tool may have.'],
    ],
  },
]
