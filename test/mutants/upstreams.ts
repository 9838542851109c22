// Lines that keep servers of strangers to what operators accepted of their tools.

import type { Held } from './mutant.ts'

const CALLS = ['test/edge/upstreams/calls.test.ts']
const DEFINITIONS = ['test/edge/upstreams/definition.test.ts']

export const UPSTREAMS: readonly Held[] = [
  {
    area: 'upstreams',
    file: 'edge/upstreams/definition.ts',
    tests: DEFINITIONS,
    lines: [
      [
        'digestOf({ domain: DIGEST_DOMAIN, upstream: { name, url }, tool })',
        "digestOf({ domain: DIGEST_DOMAIN, upstream: { name, url: '' }, tool })",
        'A tool stays accepted when its upstream is pointed at another server.',
      ],
      [
        '    if (same.length === 1) continue',
        '    if (same.length >= 1) continue',
        'A server lists a second tool under the name of an accepted one.',
      ],
      [
        "replace(EACH_CONFUSABLE, '')",
        "replace(/(?!)/g, '')",
        'A server hides instructions for models in characters that no operator can see.',
      ],
      [
        'if (CONFUSABLE.test(canonical(schema)))',
        'if (false && CONFUSABLE.test(canonical(schema)))',
        'A server hides instructions for models in the names of arguments.',
      ],
      [
        'sensitive,\n    idempotent,\n    ...(approval',
        "sensitive: sensitive && !isObject(json['annotations']),\n    idempotent,\n    ...(approval",
        'A server says that its tool is harmless, and no approval is asked for.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/published-schema.ts',
    tests: DEFINITIONS,
    lines: [
      [
        'if (keyword === HEADER) mirrored?.add(value, schema, path)\n    else if',
        'if (keyword === HEADER) mirrored?.add(value, schema, path)\n    if',
        'Clients of agents put arguments into headers, where proxies log them.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/tool-result.ts',
    tests: DEFINITIONS,
    titled: 'U08',
    lines: [
      [
        "isObject(data['requiredCapabilities']) && code === -32021",
        "isObject(data['requiredCapabilities']) && code === -32022",
        'A call that wants something of its client is reported as a defect of the server.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/run/upstream-calls.ts',
    tests: ['test/edge/upstreams/over-time.test.ts'],
    titled: 'changes together with the protocol',
    lines: [
      [
        'again.ok && !quarantine.has(claim.tool)',
        'again.ok',
        'A server gets a call that was approved for another definition, by changing its protocol as well.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/tenant/upstream-store.ts',
    tests: ['test/edge/upstreams/over-time.test.ts'],
    titled: 'every registration, acceptance',
    lines: [
      [
        "this.#journal.append('upstream.tool_accepted', name, { tool, definition, before, ...terms, by })",
        '',
        'Nobody can say later who accepted a definition that misled a model.',
      ],
      [
        "this.#journal.append('upstream.tool_quarantined', upstream, { tool, definition, shown })",
        '',
        'Nobody can say later that a server has shown another definition.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/tool-result.ts',
    tests: DEFINITIONS,
    titled: 'a whole result',
    lines: [
      [
        'filter(([member]) => members.includes(member))',
        'filter(() => true)',
        'A server’s annotations reach models and tell them what matters.',
      ],
      [
        'checked(schema, masked({ content',
        'checked(schema, ({ content',
        'A secret of the tenant that a server returns reaches the agent.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/tenant/upstream-store.ts',
    tests: CALLS,
    titled:
      'a tool whose definition changes|shows its accepted definition again|can’t accept a definition other than',
    lines: [
      [
        'else this.#update(tool.name, seen)',
        'else this.#update(tool.name, { ...seen, quarantined: false })',
        'A server shows another definition to models between two looks, and the accepted one to operators.',
      ],
      [
        'if (row.seen === null || row.seenDigest !== definition) return err(NOT_SHOWN)',
        'if (row.seen === null) return err(NOT_SHOWN)',
        'A server swaps the definition while an operator reads it, and they accept the other one.',
      ],
      [
        "  if (quarantined) return 'changed'",
        "  if (quarantined && seenDigest === null) return 'changed'",
        'A tool whose definition has changed can still be called.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/requests.ts',
    tests: CALLS,
    titled: 'redirects to another host',
    lines: [
      [
        "redirect: 'manual'",
        "redirect: 'follow'",
        'A server redirects the edge to an address of its choice.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/execute.ts',
    tests: CALLS,
    titled: 'closes the connection',
    lines: [
      [
        "return ending({ kind: 'no_answer', detail: why })",
        "return ending({ kind: 'refused', code: 'upstream_unavailable', detail: why })",
        'An agent is told that nothing was executed and proposes again what has run.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/call/endings.ts',
    tests: CALLS,
    titled: 'when the edge was killed',
    lines: [
      [
        "proposal.idempotent && proposal.plan?.tier !== 'M'",
        'proposal.idempotent',
        'After a crash the edge sends a call to an upstream a second time.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/tenant/upstream-registry.ts',
    tests: CALLS,
    titled: 'a tool whose definition changes',
    lines: [
      [
        'age < (upstream.look_ms ?? LIMITS.upstream_look_ms)',
        'age < LIMITS.upstream_look_ms * 60',
        'A tool runs although its definition has changed since the last look.',
      ],
    ],
  },
]
