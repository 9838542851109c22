// Lines that keep servers of strangers to what operators accepted of their tools.

import type { Held } from './mutant.ts'

const CALLS = ['test/edge/upstreams/calls.test.ts']
const STDIO = ['test/edge/upstreams/stdio.test.ts']
const DEFINITIONS = ['test/edge/upstreams/definition.test.ts']

export const UPSTREAMS: readonly Held[] = [
  {
    area: 'upstreams',
    file: 'shared/plan/mcp-server.ts',
    tests: DEFINITIONS,
    lines: [
      [
        '? { name: identity.name, url: identity.url }',
        "? { name: identity.name, url: '' }",
        'A tool stays accepted when its upstream is pointed at another server.',
      ],
      [
        ': { name: identity.name, command: [...identity.command] }',
        ': { name: identity.name, command: [] }',
        'A tool stays accepted when its upstream starts another program.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/definition.ts',
    tests: DEFINITIONS,
    lines: [
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
    file: 'shared/mcp/tool-result.ts',
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
        "this.#journal.append('upstream.tool_accepted', accepted)",
        '',
        'Nobody can say later who accepted a definition that misled a model.',
      ],
      [
        "this.#journal.append('upstream.tool_quarantined', { upstream, tool, definition, shown })",
        '',
        'Nobody can say later that a server has shown another definition.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'shared/mcp/tool-result.ts',
    tests: DEFINITIONS,
    titled: 'if the members of a block',
    lines: [
      [
        "(typeof value === 'string' ? value : 'unknown')",
        'String(value)',
        'A server’s answer ends its call without an outcome, and only when the lease is over.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'shared/mcp/tool-result.ts',
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
        'proposal.idempotent && upstreamOfPlan(proposal.plan) === undefined',
        'proposal.idempotent',
        'After a crash the edge sends a call to an upstream a second time.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/call/endings.ts',
    tests: ['test/edge/call/table.test.ts'],
    titled: 'U07',
    lines: [
      [
        'upstreamOfPlan(proposal.plan) === undefined',
        "proposal.plan?.tier !== 'M'",
        'A call of a server on a worker that was lost is sent a second time.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'worker/upstreams/server-call.ts',
    tests: STDIO,
    titled: 'U01|U07',
    lines: [
      [
        '    return definitionDigest(identity, found) === definition\n',
        "    return definition !== ''\n",
        'A server that a worker starts shows another definition than the accepted one, and is called.',
      ],
      [
        "return outcome === undefined ? cleaned({ kind: 'no_answer', detail: how }, this.#mask) : ended",
        'return cleaned(unavailable(how), this.#mask)',
        'A call that may have run is reported as one that did not, and is proposed again.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'shared/mcp/messages.ts',
    tests: STDIO,
    titled: 'U07|U08',
    lines: [
      [
        "if (message['id'] !== id) return unreadable",
        "if (message['id'] === 'x') return unreadable",
        'A server answers another request, and its words count as the answer to this call.',
      ],
      [
        "typeof method === 'string' && id !== undefined && method !== 'ping'",
        "typeof method === 'string' && id === 'x' && method !== 'ping'",
        'A call waits for a server that asks for sampling until its time is over.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/directory/directory.ts',
    tests: STDIO,
    titled: 'U02',
    lines: [
      [
        '  if (listing === undefined) return tools.get(name)\n',
        '  if (listing === undefined) return tools.get(name) ?? [...listings.values()].find((one) => one.tool.tool.name === name)?.tool\n',
        'An agent reads definitions of tools that nobody has accepted.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/tenant/principal-store.ts',
    tests: STDIO,
    titled: 'U02',
    lines: [
      [
        'if (isOwnAgent(name))',
        'if (false && isOwnAgent(name))',
        'An operator makes an agent whose calls look like those of the edge.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/tools/stdio-server.ts',
    tests: STDIO,
    titled: 'secrets of the upstream',
    lines: [
      [
        'name: upstream === undefined ? name :',
        'name: name !== undefined ? name :',
        'A secret that was given to one tool reaches a server of that name.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'shared/evidence/contradictions.ts',
    tests: ['test/shared/upstream-exchange.test.ts'],
    lines: [
      [
        "const onWorker = who === 'sandbox' && request?.method === 'tools/call'",
        'const onWorker = upstream !== undefined',
        'A worker leaves out what was sent to a server.',
      ],
      [
        "mcpRequestOf(plan) === undefined ? ENDS[plan?.tier ?? 'C'] : ENDS_OF_UPSTREAMS",
        "ENDS[plan?.tier ?? 'C'].concat(ENDS_OF_UPSTREAMS)",
        'A worker reports the exit of a server as the success of a call that it never sent.',
      ],
      [
        'if (upstream.definition_sha256 !== request.definition)',
        "if (upstream.definition_sha256 === '')",
        'A worker attests another definition than the accepted one.',
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
        'age < (upstream.spec.look_ms ?? LIMITS.upstream_look_ms)',
        'age < LIMITS.upstream_look_ms * 60',
        'A tool runs although its definition has changed since the last look.',
      ],
    ],
  },
  {
    area: 'upstreams',
    file: 'edge/upstreams/look.ts',
    tests: ['test/edge/upstreams/over-time.test.ts'],
    titled: 'does not list its tools within',
    lines: [
      [
        'AbortSignal.timeout(LIMITS.upstream_look_timeout_ms)',
        'AbortSignal.timeout(LIMITS.upstream_look_timeout_ms * 2)',
        'A server that never answers holds every call of its tools, and their slots.',
      ],
    ],
  },
]
