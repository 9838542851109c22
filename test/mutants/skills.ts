// Lines that confine skills: their imports, fuel, network, and whose signature counts.

import type { Held } from './mutant.ts'

export const SKILLS: readonly Held[] = [
  {
    area: 'skills',
    file: 'edge/skills/metering/meter.ts',
    tests: ['test/edge/skills/metering/meter-refused.test.ts'],
    titled: 'W11 a name',
    lines: [
      [
        'if (readName(section) === FUEL.module) throw',
        'if (readName(section) === FUEL.module && false) throw',
        'A skill brings its own counter and pays nothing.',
      ],
      [
        "if (!NAME.test(name) || name === '__proto__')",
        "if (name === '__proto__')",
        'The name of an import is run as a program of the edge.',
      ],
      [
        "|| name === '__proto__')",
        ')',
        'The name of an import sets the prototype of what joins its modules.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/metering/meter.ts',
    tests: ['test/edge/skills/metering/meter.test.ts'],
    titled: 'is charged by its size',
    lines: [
      [
        '{ times: PAGE_UNITS, most: this.#limits.pages }',
        '{ times: 0, most: this.#limits.pages }',
        'A skill grows its memory again and again for nothing.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/metering/fuel.ts',
    tests: ['test/edge/skills/metering/meter.test.ts'],
    titled: 'one local more than 50,000',
    lines: [
      ['if (locals > LOCALS_MAX) throw', 'if (false) throw', 'A small function asks for all of the stack.'],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/metering/sections.ts',
    tests: ['test/edge/skills/metering/meter.test.ts'],
    titled: 'the module is refused with a reason',
    lines: [
      [
        'if (place === -1) throw',
        'if (false) throw',
        'A section that the meter does not know holds code that costs no fuel.',
      ],
      [
        'if (place <= last) throw',
        'if (false) throw',
        'A second section of code takes the place of the one that pays.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/metering/sections.ts',
    tests: ['test/edge/skills/metering/meter-refused.test.ts'],
    titled: 'W06 a module with a million',
    lines: [
      [
        'section.end).u32() > most) throw',
        'section.end).u32() > most && false) throw',
        'A module of a million parts stalls its reader.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/storage/keys.ts',
    tests: ['test/edge/skills/storage/keys.test.ts'],
    lines: [
      [
        'faultInKey(key) === undefined && prefixes.some((prefix) => key.startsWith(prefix))',
        'faultInKey(key) === undefined',
        'A call reads keys that its plan does not grant.',
      ],
      ["text.split('/').includes('..')", "text === '..'", 'A key climbs out of what was granted.'],
      [
        'KEY_PREFIX.test(start) && !hasParentSegment(start) && prefixes.some((prefix) => start.startsWith(prefix))',
        'KEY_PREFIX.test(start) && !hasParentSegment(start)',
        'A call lists keys that its plan does not grant.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/skills/execution/host.ts',
    tests: ['test/edge/skills/execution/capabilities.test.ts'],
    titled: 'the skill’s request ends its call',
    lines: [
      [
        "kind === 'denied' && !listed ? 'host_not_listed'",
        "kind === 'denied' ? 'host_not_listed'",
        'A skill makes its own evidence contradict its plan.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/run/skill-calls.ts',
    tests: ['test/edge/skills/execution/capabilities.test.ts'],
    titled: 'longer than its limit once it is masked',
    lines: [
      [
        'output.byteLength <= plan.limits.output_bytes',
        'output.byteLength >= 0',
        'A skill makes its own evidence contradict its plan, with a masked output.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/execution/host-http.ts',
    tests: ['test/edge/skills/execution/host-http.test.ts'],
    lines: [
      [
        'keep-alive|expect|via|forwarded|proxy-.*|',
        'keep-alive|expect|via|forwarded|',
        'A skill speaks to a proxy on the edge’s way out.',
      ],
      [
        'if (!plan.egress.hosts.some((pattern) => covers(pattern, ',
        'if (false && !plan.egress.hosts.some((pattern) => covers(pattern, ',
        'A skill reaches every public host.',
      ],
      [
        'if (!(plan.executor.methods ?? []).some((granted) => granted === method))',
        'if (false)',
        'A skill that may read deletes.',
      ],
      [
        'if (twice !== undefined) return',
        'if (false) return',
        'A skill sends a header that stands for a credential.',
      ],
      [
        'filter((one) => one.host === `',
        "filter((one) => one.host !== '' || one.host === `",
        'A credential is sent to every host that the skill reaches.',
      ],
      [
        'if (fault !== undefined) return',
        'if (false) return',
        'A skill reaches an address inside that its manifest names.',
      ],
      [
        'if (!TOKEN.test(name) || !VALUE.test(value)) return',
        'if (!TOKEN.test(name)) return',
        'A header of a skill contains characters that end a header.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/publish/package.ts',
    tests: ['test/edge/skills/publish/package.test.ts', 'test/edge/skills/publish/publish.test.ts'],
    titled: 'W14|W15 a package in a spelling|W15 a package with two signatures',
    lines: [
      [
        'if (!signedByExactly(packed, SKILL_TYPE, new Map([[signature.keyid, key]])))',
        'if (false)',
        'Code that no publisher signed is published.',
      ],
      [
        'if (canonical(parsed.value) !== bytes.toString()) return',
        'if (false) return',
        'One version of a skill has several digests.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/tenant/skills/publisher-store.ts',
    tests: ['test/edge/skills/publish/trust.test.ts'],
    titled: 'revoked|W14|pinned|never listed',
    lines: [
      [
        'if (revoked !== undefined) return err(',
        'if (false) return err(',
        'A key that was revoked signs skills again.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/tenant/skills/version-store.ts',
    tests: ['test/edge/skills/publish/trust.test.ts', 'test/edge/skills/execution/calls.test.ts'],
    titled: 'W14|a disabled skill',
    lines: [
      [
        "if (state === 'revoked' && to !== 'revoked') return",
        'if (false) return',
        'A skill that was revoked is enabled again.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/tenant/skills/version-store.ts',
    tests: ['test/edge/skills/publish/trust.test.ts'],
    titled: 'W15 G07 a tool name',
    lines: [
      [
        'if (claimed !== undefined)',
        'if (false)',
        'A skill takes the name of a tool that another skill has published.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/publish/audit.ts',
    tests: ['test/edge/skills/publish/audit.test.ts'],
    titled: 'a tool whose full name',
    lines: [
      ['...faultsInToolNames(needs.manifest),', '', 'A skill’s tool passes for one of Countersign’s own.'],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/component/world.ts',
    tests: ['test/edge/skills/publish/audit.test.ts'],
    titled: 'W11',
    lines: [
      ['if (capability === undefined) throw', 'if (false) throw', 'A skill imports what no skill is given.'],
    ],
  },
  {
    area: 'skills',
    file: 'edge/decision/decide.ts',
    tests: ['test/edge/skills/execution/revocation.test.ts'],
    titled: 'does not run the very next call',
    lines: [
      [
        'skills.get(executor.skill)?.digest === executor.digest',
        'true',
        'A skill that was revoked goes on running.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/execution/host.ts',
    tests: ['test/edge/skills/execution/fuel-at-crossings.test.ts'],
    titled: 'skill_host_calls',
    lines: [
      [
        'return count > LIMITS.skill_host_calls',
        'return count > LIMITS.skill_host_calls * 2',
        'A skill keeps the edge busy with requests to its storage that cost it little.',
      ],
    ],
  },
  {
    area: 'skills',
    file: 'edge/skills/execution/host.ts',
    tests: ['test/edge/skills/execution/host.test.ts'],
    lines: [
      [
        'if (this.#underWay >= LIMITS.skill_requests_at_once) return BUSY',
        '',
        'A skill that controls its isolate sends more requests than its plan allows, all at once.',
      ],
      ['this.#underWay -= 1', '', 'A skill makes one request only, and every later one fails.'],
      [
        '      this.#bytes += bytes\n',
        '',
        'A skill receives more bytes than its plan allows, over several requests.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/skills/execution/isolate-answer.ts',
    tests: ['test/edge/skills/execution/host.test.ts'],
    lines: [
      [
        'z.partialRecord(z.enum(HOST_FUNCTIONS), z.int().min(0))',
        'z.record(z.string(), z.int().min(0))',
        'A skill that controls its isolate fills a statement with names, or makes it impossible to sign.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/run/skill-calls.ts',
    tests: ['test/edge/run/skill-calls.test.ts'],
    lines: [
      [
        'await asInfraFailure<Execution | undefined>(inTurn, notStarted)',
        'await inTurn',
        'A call that a defect of the edge ended is never settled, and nobody learns how it ended.',
      ],
      [
        'if (directory === null)',
        'if (false)',
        'A skill that may have been revoked makes its call end without an attestation.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/call/skill-statement.ts',
    tests: ['test/edge/skills/execution/host.test.ts'],
    lines: [
      [
        'if (described.ok) return',
        'if (!described.ok) throw new Error(described.error)\n  if (described.ok) return',
        'A skill that controls its isolate makes its call end without an attestation.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/skills/skill-object.ts',
    tests: ['test/edge/tenant/tenants-quota.test.ts'],
    titled: 'D18 what skills store|D18 calls of a skill at the same time',
    lines: [
      [
        'if (bytes > now.reserved && bytes > now.bytes) return ok(bytes)',
        '',
        'The skills of one tenant fill the disk of all tenants.',
      ],
      ['if (!room.ok) return room', '', 'The skills of one tenant fill the disk of all tenants.'],
      [
        'const needed = Math.min(reserved, reservationFor(bytes))',
        'const needed = reserved',
        'A skill that stores and deletes uses up the quota of its tenant for good.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/tenant/storage-store.ts',
    tests: ['test/edge/tenant/tenants-quota.test.ts'],
    titled: 'D18 what skills store|D18 files of all runs',
    lines: [['more <= 0 || all + more <= quota', 'true', 'One tenant fills the disk of all tenants.']],
  },
  {
    area: 'tenants',
    file: 'edge/tenant/skills/version-store.ts',
    tests: ['test/edge/tenant/tenants-quota.test.ts'],
    titled: 'D18 what skills store',
    lines: [
      [
        'holdCode(this.#codeBytes() + added)',
        'holdCode(0)',
        'The code of one tenant’s skills fills the disk of all tenants.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/api/skill-storage.ts',
    tests: ['test/edge/tenant/tenants-deleted.test.ts'],
    titled: 'D18 no object is made',
    lines: [
      [
        'return version === undefined ? undefined :',
        'return !version && false ? undefined :',
        'An operator of one tenant fills the disk with empty objects, which outlive the tenant.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/api/skill-trials.ts',
    tests: ['test/edge/tenant/tenants-deleted.test.ts'],
    titled: 'D18 no object is made',
    lines: [
      [
        'await trialObject(env, directory.tenant).try(',
        'await trialObject(env, directory.tenant + manifest.id).try(',
        'An author of one tenant fills the disk with empty objects, which outlive the tenant.',
      ],
    ],
  },
]
