// Lines that verify tokens of agents: header, signature, claims, rules, keys of issuers.

import type { Held } from './mutant.ts'

export const TOKENS: readonly Held[] = [
  {
    area: 'tokens',
    file: 'edge/tokens/token.ts',
    tests: ['test/edge/tokens/token.test.ts'],
    lines: [
      ['if (text.length > LIMITS.token_bytes)', 'if (false)', 'A stranger makes the edge parse long tokens.'],
      [
        'ALGORITHMS.find((name) => name === header',
        'ALGORITHMS.find((name) => name !== header',
        'A token says how it is to be checked: not at all, or with the published key as a secret.',
      ],
      [
        'if (own !== undefined) return',
        'if (false) return',
        'A token brings the key that it is checked with.',
      ],
      [
        "if ('crit' in header) return",
        'if (false) return',
        'An extension that we ignore changes what was signed.',
      ],
      [
        'return TYPES.has(type) ?',
        'return !TYPES.has(7) ?',
        'A logout or event token of the same issuer passes for an access token.',
      ],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/claims.ts',
    tests: ['test/edge/tokens/token.test.ts'],
    lines: [
      ['if (!ours) return', 'if (false) return', 'A token for another service is used here.'],
      ['if (now >= exp + skew) return', 'if (false) return', 'A token works for ever.'],
      ['if ((nbf ?? 0) > now + skew) return', 'if (false) return', 'A token works before its time.'],
      ['if ((iat ?? 0) > now + skew) return', 'if (false) return', 'A token from the future works.'],
      [
        '> LIMITS.token_life_s)',
        '> Number.POSITIVE_INFINITY)',
        'A token that lives for years is a key that nobody can rotate.',
      ],
      ['return now >= old', 'return false', 'A token works longer than the operator allows.'],
      ['if (missing !== undefined) return', 'if (false) return', 'A token without a required claim works.'],
      [
        "if (claims['cnf'] !== undefined)",
        'if (false)',
        'Somebody who stole a bound token uses it as a bearer.',
      ],
      [
        'Object.entries(wanted).every(',
        'Object.entries(wanted).some(',
        'A token works that has one of the claims of a rule, not all.',
      ],
      ['? value === rule :', '? value.startsWith(rule) :', 'A longer name passes for the one in the rule.'],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/key-documents.ts',
    tests: ['test/edge/tokens/key-source.test.ts'],
    lines: [
      [
        'return described === issuer &&',
        'return',
        'A discovery document of another issuer supplies the keys (mix-up).',
      ],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/key-source.ts',
    tests: ['test/edge/tokens/key-source.test.ts'],
    lines: [
      [
        'if (faultInAddress(address, standIns !== undefined) !== undefined) return undefined',
        '',
        'A discovery document makes the edge send requests into its own network.',
      ],
      ["redirect: 'manual',", '', 'A redirect makes the edge send requests into its own network.'],
      ['if (size > LIMITS.key_set_bytes) return undefined', '', 'An issuer fills the memory of the edge.'],
      [
        'signal: AbortSignal.timeout(LIMITS.key_set_ms),',
        '',
        'An issuer that never answers holds requests open.',
      ],
      [
        'if (running !== undefined) return running',
        '',
        'Many tokens at the same time make the edge flood an issuer.',
      ],
      [
        'unknown && this.#now() >= entry.unknownAt)',
        'unknown)',
        'Tokens with unknown keys make the edge flood an issuer.',
      ],
      [
        'if (this.#now() < entry.failedAt + LIMITS.key_set_retry_ms) return false',
        '',
        'Each token makes the edge ask an issuer that is down.',
      ],
      [
        'if (this.#now() >= fetchedAt + LIMITS.key_set_stale_ms)',
        'if (fetchedAt === 0)',
        'An attacker who blocks an issuer keeps its withdrawn keys in use.',
      ],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/issuer-faults.ts',
    tests: ['test/edge/tokens/token.test.ts'],
    lines: [
      [
        'named === undefined || named === tenant',
        'true',
        'A tenant accepts tokens that were made for another tenant.',
      ],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/verify.ts',
    tests: ['test/edge/tokens/agents-by-token.test.ts'],
    lines: [
      [
        "typeof iss === 'string' ? directory.issuers.get(iss) : undefined",
        'directory.issuers.get(String(iss))',
        'A stranger’s token ends in an internal error, and each one is logged.',
      ],
      [
        'if (!issuer.spec.algorithms.includes(token.algorithm))',
        'if (false)',
        'An issuer’s keys are used with algorithms that the operator did not allow.',
      ],
      ["if (signature === 'wrong')", 'if (false)', 'Anybody makes a token.'],
      [
        'agent === undefined || agent.since !== issuer.agents[name]',
        'agent === undefined',
        'The tokens of a removed agent work as the next agent with its name.',
      ],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/tokens/token-cache.ts',
    tests: ['test/edge/tokens/agents-by-token.test.ts', 'test/edge/tokens/token.test.ts'],
    lines: [
      ['known.version === directory.version &&', '', 'A cached token works after its issuer was removed.'],
      ['&& now < known.verified.until', '', 'A cached token works after it has expired.'],
    ],
  },
  {
    area: 'tokens',
    file: 'edge/http/token-bearer.ts',
    tests: ['test/edge/tokens/agents-by-token.test.ts'],
    lines: [
      [
        "directory.state === 'suspended' ? err(SUSPENDED) :",
        '',
        'Agents of a suspended tenant go on with tokens.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/decision/proposal.ts',
    tests: ['test/edge/tokens/actors.test.ts'],
    lines: [
      [
        'actor: origin?.actor ?? null,',
        'actor: null,',
        'A rule on the person behind an agent does not apply when a call is approved or claimed.',
      ],
    ],
  },
]
