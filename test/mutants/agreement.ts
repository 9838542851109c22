// Lines of shared/ and of the edge's ids: what both sides read, name, sign and prove.

import type { Held } from './mutant.ts'

const NUMBERS = [
  'test/shared/contradictions-at-edge.test.ts',
  'test/shared/contradictions-of-workers.test.ts',
]

export const AGREEMENT: readonly Held[] = [
  {
    area: 'json',
    file: 'shared/bytes/json.ts',
    tests: ['test/shared/json.test.ts'],
    lines: [
      [
        "if (key === '__proto__')",
        "if (key === '__proto')",
        'An argument sets the prototype of an object that the edge reads.',
      ],
      [
        'if (Object.hasOwn(members, key))',
        'if (false)',
        'Policy reads one of two members of the same name, and the tool the other.',
      ],
      [
        '{ fatal: true, ignoreBOM: true }',
        '{ ignoreBOM: true }',
        'Invalid UTF-8 is read as other text than the digest covers.',
      ],
      [
        'if (depth > this.#bounds.depth)',
        'if (false)',
        'A deeply nested body overflows the stack of the edge.',
      ],
      [
        'if (++this.#nodes > this.#bounds.nodes)',
        'if (false)',
        'A small body of many values keeps the edge busy.',
      ],
      [
        "if (value.includes('\\0') ||",
        'if (',
        'A text with NUL means one thing to the edge and another to a program.',
      ],
      ['|| !value.isWellFormed())', ')', 'A lone surrogate has two spellings, so two texts share a digest.'],
      [
        'if (this.#at < this.#text.length) throw',
        'if (false) throw',
        'A second document behind the first one is ignored here and read elsewhere.',
      ],
      ['if (bytes.byteLength > bounds.bytes)', 'if (false)', 'A body of any size is parsed.'],
      [
        'Object.keys(record).sort()',
        'Object.keys(record)',
        'The order of members changes a digest, so the same call passes for another.',
      ],
    ],
  },
  {
    area: 'ids',
    file: 'shared/ids.ts',
    tests: ['test/shared/ids.test.ts'],
    lines: [
      [
        'tool: /^[a-z][a-z0-9_-]{0,49}$/',
        'tool: /^[a-z][a-z0-9_-]{0,49}/',
        'A tool is named like another one, with characters that nobody sees.',
      ],
      [
        'call: new RegExp(`^call_',
        'call: new RegExp(`call_',
        'A path with more in it passes for the id of a call.',
      ],
      [
        "const TENANT = '[a-z][a-z0-9-]{0,31}'",
        "const TENANT = '[a-z_][a-z0-9_-]{0,31}'",
        'A key can be read as one of another tenant.',
      ],
    ],
  },
  {
    area: 'ids',
    file: 'edge/run/run-id.ts',
    tests: ['test/edge/run/run-id.test.ts'],
    lines: [
      [
        'return timingSafeEqual(bytes.subarray(11),',
        'return true || timingSafeEqual(bytes.subarray(11),',
        'Any guessed run id makes the edge open an object for it.',
      ],
      [
        'hashOf(tenant, name, since, idempotencyKey)',
        'hashOf(tenant, since, idempotencyKey)',
        'An agent finds another agent’s run by using the same idempotency key.',
      ],
      [
        '(tenant, name, since, idempotencyKey)',
        '(tenant, name, idempotencyKey)',
        'An agent that is made again under a name finds the runs of the one before.',
      ],
      [
        'base32(Buffer.concat([head, check(tenant, head, key)]))',
        'base32(Buffer.concat([head, randomBytes(5)]))',
        'A run id no longer proves that the edge made it.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/run/run-id.ts',
    tests: ['test/edge/run/run-id.test.ts'],
    lines: [
      [
        ".update(tenant).update('\\0').update(head)",
        '.update(head)',
        'A run id of one tenant is valid for every other tenant.',
      ],
      [
        'const id = `',
        'const id = run || `',
        'An id that one tenant has shown passes for the next tenant too.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'shared/evidence/dsse.ts',
    tests: ['test/shared/dsse.test.ts'],
    lines: [
      ['envelope.payloadType !== type ||', '', 'A signed grant is accepted as a signed statement.'],
      [', { abort: true })', ')', 'A payload of some megabytes makes a verifier overflow its stack.'],
      [
        '|| envelope.signatures.length !== keys.size)',
        ')',
        'A stranger’s signature beside the right ones looks verified.',
      ],
      ['|| seen.has(keyid)', '', 'One signer signs twice where two signers are required.'],
      [
        "if (payload.toString('base64') !== envelope.payload) return false",
        '',
        'One signed envelope has several spellings, each with a digest of its own.',
      ],
      [
        'Buffer.byteLength(type)',
        'type.length',
        'Type and payload can be shifted against each other under one signature.',
      ],
    ],
  },
  {
    area: 'signatures',
    file: 'shared/evidence/http-signature.ts',
    tests: ['test/shared/http-signature.test.ts'],
    lines: [
      ['|| headers.digest !== contentDigest(request.body)', '', 'The body of a signed request is swapped.'],
      [
        '|| header !== `w=',
        '&& header !== `w=',
        'A request is accepted whose signature covers less than method, path and body.',
      ],
      [
        'authority.toLowerCase()}\\n"@path": $',
        '"@path"}\\n"@path": $',
        'A request signed for one edge is replayed at another.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/journal.ts',
    tests: ['test/shared/journal.test.ts'],
    lines: [
      ['if (entry.seq !== head.seq + 1)', 'if (false)', 'Entries of a journal are renumbered.'],
      ['if (entry.prev !== head.hash)', 'if (false)', 'An entry is cut out of the middle of a journal.'],
      ['if (entry.hash !== entryHash(entry))', 'if (false)', 'The body of a journal entry is rewritten.'],
      [
        "entry.body['shadow_sha256'] !== digestOf(entry.shadow)",
        'false',
        'The recorded verdict of a shadowing policy is rewritten afterwards.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/merkle.ts',
    tests: ['test/shared/merkle.test.ts'],
    lines: [
      [
        'Buffer.of(0), Buffer.from(data)',
        'Buffer.of(1), Buffer.from(data)',
        'An inner node of the log passes for a leaf, so a proof exists for an entry that was never logged.',
      ],
      ['|| index >= size ||', '||', 'A proof is accepted for a place that the log does not have.'],
      [
        'return last === 0 && hash === expected',
        'return hash === expected',
        'A proof that is too short is accepted.',
      ],
      [
        'return last === 0 && hashM === rootM && hashN === rootN',
        'return last === 0 && hashN === rootN',
        'A log whose past was rewritten is shown to be consistent.',
      ],
      [
        'if (m === n) return proof.length === 0 && rootM === rootN',
        'if (m === n) return proof.length === 0',
        'Two different logs of one size pass for the same one.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/checkpoint.ts',
    tests: ['test/shared/checkpoint.test.ts'],
    lines: [
      [
        'if (head.value.origin !== origin)',
        'if (false)',
        'The head of another log is accepted as that of ours.',
      ],
      ['if (own.length === 0)', 'if (false)', 'A head that nobody signed is accepted.'],
      [
        'own.every(({ signature }) => isSignedBy(x, text, signature))',
        'true',
        'A head with a forged signature is accepted.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/bundle.ts',
    tests: ['test/shared/bundles/statement.test.ts', 'test/shared/contradictions.test.ts'],
    lines: [
      [
        'keys.tenant === facts.tenant,',
        'true,',
        'The keys of one tenant verify what another tenant’s edge signed.',
      ],
      [
        'facts.digest === callDigest(call as DigestInput)',
        'true',
        'Arguments beside an attestation are swapped, and it still verifies.',
      ],
      [
        'facts.args_sha256 === digestOf(call.arguments)',
        'true',
        'The digest of the arguments in an attestation means nothing.',
      ],
      [
        "execution.executor === EDGE_EXECUTOR || (grant !== null && facts.decision.effect !== 'deny')",
        'true',
        'An execution that policy denied verifies.',
      ],
      [
        'signedByExactly(envelope, GRANT_TYPE, new Map([[kid, key.value]]))',
        'true',
        'A worker invents the grant that it shows.',
      ],
      [
        'holds(REMOVAL_SIGNED, removed !== undefined)',
        '',
        'A tombstone that says nothing about a call is shown beside it.',
      ],
      [
        'call.arguments === null && call.plan === null',
        'true',
        'Swapped arguments pass as those of a call whose arguments were removed.',
      ],
      [
        'digestOf(granted) === grant.sha256',
        'true',
        'Another grant is shown for a call whose arguments were removed.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/contradictions.ts',
    tests: ['test/shared/contradictions.test.ts'],
    lines: [
      [
        'if (subject.digest.sha256 !== facts.digest)',
        'if (false)',
        'An attestation is shown for another digest than the one that ran.',
      ],
      [
        'if (named.sha256 !== digestOf(grant))',
        'if (false)',
        'Another grant than the one that was used is shown beside an attestation.',
      ],
      [
        'if (named.fence !== grant.fence)',
        'if (false)',
        'An attestation of a second execution passes for one of the first.',
      ],
      ['endingOf(outcome).state === state\n', 'true\n', 'A failed call is attested as one that succeeded.'],
      [
        'if (attestation_id !== attestationId(facts.run, splitId(facts.call).n))',
        'if (false)',
        'One call is shown the attestation of another.',
      ],
      [
        'if (sandbox_enforcement !== expected)',
        'if (false)',
        'A worker runs a call unfenced and has it attested as strict.',
      ],
      [
        'if (!expected || !named)',
        'if (false)',
        'A worker runs a call of tier C in tier B, and the statement verifies.',
      ],
      [
        'if (cgroup === true && grant?.proven?.cgroups === false)',
        'if (false)',
        'A worker attests limits that it has proven not to have.',
      ],
      ['if (started_at_ms > ended_at_ms)', 'if (false)', 'A call ends before it starts.'],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/contradictions.ts',
    tests: NUMBERS,
    lines: [
      [
        'if (splitId(call).run !== run)',
        'if (false)',
        'A grant and its attestation name a call of another run.',
      ],
      [
        'ended_at_ms - started_at_ms > longest',
        'false',
        'A worker lets a call run for hours and attests its timeout.',
      ],
      [
        'if (isAtEdge(who) && started_at_ms !== grant.issued_at_ms)',
        'if (false)',
        'A call of the edge is shown as begun at another time than it was granted.',
      ],
      [
        'isAtEdge(who) ? one !== most : !lower',
        '!lower',
        'A statement of the edge names limits that the call did not have.',
      ],
      [
        "yield* below('/skill', usageFaults(skill, plan))",
        '',
        'A skill used more than its plan allows, and the statement verifies.',
      ],
      [
        'upstream.request_sha256 !== null && !reached',
        'false',
        'A request to an upstream is attested that no connection carried.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/connection-rules.ts',
    tests: NUMBERS,
    lines: [
      [
        "if (allowed > mostOf('net_connections', plan?.limits, plan))",
        'if (false)',
        'A call made more connections than its plan allows, and the statement verifies.',
      ],
      [
        'bytesOf(connections) > mostOf(',
        'false && bytesOf(connections) > mostOf(',
        'A call sent more than its plan allows, and the statement verifies.',
      ],
      [
        '&& bytesOf(capped) === 0',
        '&& capped.length === 0',
        'A refused connection excuses any number of bytes.',
      ],
      [
        '(LISTED.includes(verdict) && !listed) ||',
        '',
        'A call reached a host that its plan does not list, under a mask.',
      ],
      ['&& i >= NAMED', '', 'A sum without a host hides where a call connected.'],
      [
        "if (plan !== null && isEdgePlan(plan) && address !== '')",
        'if (false)',
        'A statement names an address that nobody saw.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/usage-rules.ts',
    tests: NUMBERS,
    lines: [
      ['kept > bytes || kept > most', 'kept > bytes', 'More output is attested than a call may keep.'],
      [
        'isLog ? UTF8_BYTES * LIMITS.skill_log_chars :',
        'isLog ? Number.MAX_SAFE_INTEGER :',
        'The log of a skill is longer than any can be.',
      ],
      [
        'if (fuel_used > limits.fuel)',
        'if (false)',
        'A skill computed longer than its plan allows, and the statement verifies.',
      ],
      [
        'if (memory_bytes > limits.memory_bytes)',
        'if (false)',
        'A skill used more memory than its plan allows, and the statement verifies.',
      ],
      [
        'if (!isGranted || count > most)',
        'if (count > most)',
        'A skill used an import that it was not granted, and the statement verifies.',
      ],
      [
        'if (!isGranted || count > most)',
        'if (!isGranted)',
        'A skill asked its host more often than its fuel pays for, and the statement verifies.',
      ],
      [
        "outcome?.kind === 'fuel_exhausted' && (skill?.fuel_used ?? 0) < fuel",
        'false',
        'A call is ended for fuel that it did not use.',
      ],
      [
        'if (flooded && UNSTOPPED.includes(outcome.kind))',
        'if (false)',
        'A worker attests the exit of a program that it stopped for its output.',
      ],
      [
        "if (isCut && outcome.kind === 'exit' && outcome.code === 0)",
        'if (false)',
        'A part of a value passes for the value that the tool promises.',
      ],
      [
        '!REFUSED_LATE[plan.tier].includes(code)',
        'false',
        'A worker executes a call and says that it refused it, so that it is proposed again.',
      ],
      [
        "if ((stdout?.bytes ?? 0) > 0) yield { at: '/stdout', what }",
        '',
        'A call with output counts as never executed.',
      ],
      [
        "if (plan?.tier === 'A' && (stderr?.bytes ?? 0) > 0)",
        'if (false)',
        'A skill that logged counts as never executed.',
      ],
      [
        'if (connections.length > 0 && !reaches)',
        'if (false)',
        'A call that connected counts as never executed.',
      ],
      [
        "if (typeof upstream?.request_sha256 === 'string')",
        'if (false)',
        'A call that an upstream received counts as never executed.',
      ],
      ['if (files !== undefined)', 'if (false)', 'A call that left files counts as never executed.'],
      ['if (skill.fuel_used > 0)', 'if (false)', 'A skill that computed counts as never executed.'],
      [
        'if (skill.memory_bytes > 0)',
        'if (false)',
        'A skill that was instantiated counts as never executed.',
      ],
      [
        'if (Object.keys(skill.host_calls).length > 0)',
        'if (false)',
        'A skill that asked its host counts as never executed.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/call/settlement.ts',
    tests: ['test/shared/contradictions-at-edge.test.ts'],
    lines: [
      [
        'return fault === undefined ? ok(statement) : err(fault.at)',
        'return ok(statement)',
        'The edge signs what an isolate claims, against its own grant.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'shared/plan/egress-hosts.ts',
    tests: ['test/shared/masked-host.test.ts'],
    lines: [
      ['const text = mask(to.host)', 'const text = to.host', 'A statement names a host with a secret in it.'],
      [
        'text.endsWith(named) ? text :',
        'named !== "" ? text :',
        'A masked host can’t be compared with the plan.',
      ],
      [
        'whole.length > SIGNED_TEXT_CHARS.host ?',
        'false ?',
        'A long host loses the end that the plan names.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'shared/plan/egress-hosts.ts',
    tests: ['test/escape/network/public-address.test.ts'],
    lines: [
      [
        'host.endsWith(name) && host.length > name.length : host === name',
        'host.endsWith(name) && host.length > name.length : host.endsWith(name)',
        'A stranger’s host that ends like a listed one is reached.',
      ],
      ['!ADDRESS.test(host) && host.endsWith(name)', 'host.endsWith(name)', 'A suffix covers addresses.'],
      [
        'if (only === undefined ? !WEB_PORTS.includes(port) : Number(only) !== port) return false',
        '',
        'Every port of a listed host is reached.',
      ],
    ],
  },
  {
    area: 'files',
    file: 'shared/plan/call-files.ts',
    tests: ['test/shared/files.test.ts'],
    lines: [
      ["|| parts.includes('..'))", ')', 'A file of a call is written outside of its folder.'],
      ["part.toLowerCase() === '.git'", 'false', 'A file that a call brings is run as a hook of git.'],
      ['|| CONFUSABLE.test(path) ||', '||', 'The name of a file reads as another one on the approval card.'],
      [
        "if (parts.includes('') || ",
        'if (',
        'One file has several names, so a rule about its path is passed by.',
      ],
    ],
  },
  {
    area: 'files',
    file: 'shared/plan/working-directory.ts',
    tests: ['test/edge/tools/planner.test.ts'],
    titled: 'a working directory outside the workspace is refused',
    lines: [
      ["cwd.startsWith('/') ||", '', 'A call begins in any folder that its sandbox shows.'],
      ["|| names.includes('..')", '', 'A call of tier B begins outside of its workspace.'],
    ],
  },
  {
    area: 'lifecycle',
    file: 'edge/decision/proposal.ts',
    tests: ['test/edge/tokens/actors.test.ts'],
    titled: 'G12 L1 an idempotency key that one person',
    lines: [
      [
        'actorIn(known.proposal.origin) !== actorIn(origin)',
        'false',
        'An idempotency key gives the result of a call on behalf of one person to another (L1).',
      ],
    ],
  },
  {
    area: 'lifecycle',
    file: 'edge/call/run.ts',
    tests: ['test/edge/tenant/reused-names.test.ts'],
    titled: 'reads, cancels and continues nothing',
    lines: [
      [
        'agent === name && agentSince === since',
        'agent === name',
        'An agent that is made again under a name reads and continues the runs of the one before.',
      ],
    ],
  },
]
