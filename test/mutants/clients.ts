// Lines of the client packages: what an agent trusts of an answer, and where its key may travel.

import type { Held } from './mutant.ts'

export const CLIENTS: readonly Held[] = [
  {
    area: 'clients',
    file: 'clients/typescript/src/transport.ts',
    tests: ['test/clients/typescript.test.ts'],
    lines: [
      [
        "redirect: 'manual',",
        "redirect: 'follow',",
        'An edge, or what stands before it, sends the proposals of an agent to another address.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/typescript/src/files.ts',
    tests: ['test/clients/typescript.test.ts'],
    lines: [
      [
        'if ((await sha256(bytes)) !== digest)',
        'if (false)',
        'A file arrives changed, and the agent takes it for the one that the attestation names.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/typescript/src/portable/node-crypto.ts',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        "return Buffer.from(right.toBytes()).toString('hex') === Buffer.from(r).toString('hex')",
        'return right.toBytes().length === 32',
        'In a browser any bytes are a valid signature.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/typescript/src/verify.ts',
    tests: ['test/clients/verify.test.ts'],
    lines: [['ok: ok && about,', 'ok,', 'The true attestation of another call is accepted for this one.']],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/envelope.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'if key is None or one["keyid"] in seen or not is_signed_by(key, signed, bytes_of(one["sig"])):',
        'if key is None:',
        'In Python any bytes are a valid signature.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/keys.py',
    tests: ['test/clients/verify.test.ts'],
    titled: 'T03',
    lines: [
      [
        'if not signed_by_exactly(envelope, LINK_TYPE, both):',
        'if False:',
        'In Python anybody introduces a key of their own as the edge’s next one.',
      ],
      [
        'and canonical(edges) == canonical(_edge_keys(edges[0]["x"], keys["chain"]))',
        '',
        'In Python an edge key counts without the chain.',
      ],
      [
        'if distrusted is not None and after >= distrusted:',
        'if False:',
        'In Python a thief of a key signs evidence after the theft is known.',
      ],
      [
        'if until is not None and after > until + SLACK_MS:',
        'if False:',
        'In Python a retired key signs on.',
      ],
      [
        'if before is not None and before < key.get("from_ms", 0) - SLACK_MS:',
        'if False:',
        'In Python a new key signs grants of the time before it.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/verify.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'granted = None if grant is None else _grant_in(bundle["grant"], keys)',
        'granted = parse(bytes_of(bundle["grant"]["payload"])) if bundle["grant"] else None',
        'In Python a grant that nobody has signed supports a statement.',
      ],
      [
        'holds(name, at is None, at)',
        'holds(name, True, at)',
        'In Python a report that contradicts its plan is verified.',
      ],
      [
        'about["arguments"] is None and about["plan"] is None',
        'True',
        'In Python swapped arguments pass as those of a call whose arguments were removed.',
      ],
      [
        'holds(REMOVAL_SIGNED, removed is not None)',
        'removed = removed or {"arguments": {}}',
        'In Python anybody removes the arguments of a call and says that the rule did.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/journal_checks.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      ['claimed and held', 'claimed', 'In Python a call that another worker claimed is verified.'],
      [
        'answered = _same(_approval_in(own), facts["approval"])',
        'answered = True',
        'In Python a call passes as approved by anybody.',
      ],
      ['if whole(entry["at_ms"]) >= body["expires_at"]:', 'if False:', 'In Python late answers count.'],
      ['len(ends) == 1 and ends[0] is last and', '', 'In Python a call ends twice.'],
      [
        'if not linked or entry["hash"] != digest_of(',
        'if not linked or not digest_of(',
        'In Python the entries of a journal are rewritten.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/log_checks.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      ['return last == 0 and value == root', 'return True', 'In Python a log proves what it does not have.'],
      [
        'if not is_signed_by(key, f"{text}\\n".encode(), encoded[4:]):',
        'if False:',
        'In Python anybody signs the head of a log.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/snapshot_checks.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'digest_of(snapshot) == decision["snapshot"]',
        'True',
        'In Python other policies are shown than those in force.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/contradictions.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'if named[name] != grant[name]:',
        'if False:',
        'In Python a statement names a grant of another worker.',
      ],
      [
        'if one != most if at_edge else not lower:',
        'if one is None:',
        'In Python a call that exceeded the limits of its plan is verified.',
      ],
      [
        'if known.ran and required and cgroup is not True:',
        'if False:',
        'In Python a call without the cgroup that its plan requires is verified.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/connection_rules.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'contradicts = not listed if verdict in LISTED else verdict == "host_not_listed" and listed',
        'contradicts = False',
        'In Python connections to hosts that the plan does not name are verified.',
      ],
      [
        'if _bytes_of(connections) > most and _bytes_of(capped) == 0:',
        'if False:',
        'In Python a call that sent more than its plan allows is verified.',
      ],
    ],
  },
  {
    area: 'clients',
    file: 'clients/python/src/countersign_agent/usage_rules.py',
    tests: ['test/clients/verify.test.ts'],
    lines: [
      [
        'if whole(skill[name]) > whole(limits[most]):',
        'if False:',
        'In Python a skill that used more than its plan allows is verified.',
      ],
      [
        'if flooded and kind in UNSTOPPED:',
        'if False:',
        'In Python the exit of a program that its worker stopped is verified.',
      ],
      [
        'if (execution.get("upstream") or {}).get("request_sha256") is not None:',
        'if False:',
        'In Python a call that an upstream received is verified as refused.',
      ],
    ],
  },
]
