// Lines of the MCP endpoint: what it lets in, what it opens for whom, and what runs only once.

import type { Held } from './mutant.ts'

export const MCP: readonly Held[] = [
  {
    area: 'mcp',
    file: 'edge/mcp/headers.ts',
    tests: ['test/edge/mcp/envelope.test.ts'],
    lines: [
      [
        'if (host !== ours.host && !LOOPBACK.test(hostname) && !ADDRESS.test(hostname))',
        'if (false)',
        'A page whose name was rebound to the edge is not refused by its name.',
      ],
      [
        'origin === null || origin === ours.origin',
        'origin === null || origin.startsWith(ours.origin)',
        'A page of an origin that begins like ours may send.',
      ],
      [
        "if (headers.get('mcp-method') !== method)",
        'if (false)',
        'An intermediary allows the method of the header, and the edge serves that of the body.',
      ],
      [
        "decodeHeader(headers.get('mcp-name')) === value",
        'true',
        'An intermediary allows the tool of the header, and the edge calls that of the body.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/envelope.ts',
    tests: ['test/edge/mcp/envelope.test.ts'],
    lines: [
      ['if (Array.isArray(body))', 'if (false)', 'A batch is read as a message.'],
      [
        'return Number.isInteger(value)',
        "return typeof value === 'number'",
        'A fraction is an id, which clients and intermediaries may round.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/sealed.ts',
    tests: ['test/edge/mcp/sealed.test.ts'],
    lines: [
      [
        'if (JSON.stringify(whose) !== JSON.stringify(ownerOf(owner))) return undefined',
        '',
        'An agent reads another agent’s calls with a text that it saw.',
      ],
      [
        'opening.setAAD(boundTo(purpose))',
        "opening.setAAD(boundTo('wait'))",
        'A text sealed for one purpose opens for another.',
      ],
      [
        "return 'until' in known && now >= known.until ? undefined : known",
        'return known',
        'A task or a wait opens for ever.',
      ],
      [
        "|| bytes.toString('base64url') !== sealed",
        '',
        'One sealed text has many spellings, which pass lists of revoked or used texts.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/outcome.ts',
    tests: ['test/edge/mcp/outcome.test.ts'],
    lines: [
      [
        'return round < LIMITS.mcp_rounds ?',
        'return round >= 0 ?',
        'Clients that stop at the tenth answer end with an error, and their models propose again.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/tool-call.ts',
    tests: ['test/edge/mcp/waiting.test.ts', 'test/edge/mcp/tools.test.ts'],
    lines: [
      [
        'state.args !== digestOf(params.args)',
        'false',
        'The answer about some arguments is shown for others, which were never decided.',
      ],
      ['isListed(agent, name))', 'true)', 'An agent learns which tools exist that are not its own.'],
      [
        'agent.spec.mcp?.elicit !== true || ',
        '',
        'Every client that opens pages is told to show an approval page to its user.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/held-answer.ts',
    tests: ['test/edge/mcp/waiting.test.ts'],
    titled: 'a held request ends when its key is revoked|L2 a held result that its client received',
    lines: [
      [
        'if ((await stillCaller()) === null)',
        'if (false)',
        'A revoked key receives the result of a call that it waits for.',
      ],
      [
        "if (state === 'answered') return end(last?.received?.())",
        "if (state === 'answered') return end()",
        'A received answer is given again to the next equal request, which then does not run.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/run/commands/propose.ts',
    tests: ['test/edge/mcp/waiting.test.ts'],
    titled: 'L2 ',
    lines: [
      [
        'const equal = joinKey === null ? undefined : run.store.callToJoin(joinKey)',
        'const equal = undefined as CallRecord | undefined',
        'A request that is repeated runs twice (L2).',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/run/commands/propose.ts',
    tests: ['test/edge/mcp/abandoned.test.ts'],
    titled: 'a result that nobody received',
    lines: [
      [
        'Date.now() - equal.status.at < LIMITS.mcp_join_ms',
        'Date.now() - equal.status.at < LIMITS.mcp_join_ms * 2',
        'A client gets the result of an old call for a new request.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/run/commands/propose.ts',
    tests: ['test/edge/tokens/actors.test.ts'],
    titled: 'L1 over MCP',
    lines: [
      [
        'actor === undefined ? null : identityOfActor(actor)',
        'null',
        'A call that was decided on behalf of one person answers a call on behalf of another (L1).',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/run/commands/clients.ts',
    tests: ['test/edge/mcp/abandoned.test.ts'],
    lines: [
      [
        "(status.state !== 'running' || running)",
        'true',
        'A client that closes its connection stops a running call.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/mcp/tool-call.ts',
    tests: ['test/edge/mcp/waiting.test.ts'],
    titled: 'M05 requests beyond',
    lines: [
      [
        '(await tenantObject(env, agent.tenant).holdRequest(place, agent.name))',
        'true',
        'One agent holds requests without end, and the memory of the edge with them.',
      ],
    ],
  },
  {
    area: 'mcp',
    file: 'edge/run/commands/advise.ts',
    tests: ['test/edge/http/claude-code-hook.test.ts'],
    titled: 'M05 hooks of one agent',
    lines: [
      [
        'if (!(await tenant.holdRequest(place, agent.name))) return',
        '',
        'One agent holds hooks without end, and the memory of the edge with them.',
      ],
    ],
  },
]
