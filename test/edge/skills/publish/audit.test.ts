// Promise: a package's bill of materials and provenance are about exactly its code, and its
// manifest declares what the code uses. Contradictions are refused with a sentence that says what
// to do; facts to know before enabling it are warnings, stored with the version.

import { afterAll, describe, expect, test } from 'vitest'
import { digestOf, sha256 } from '../../../../shared/bytes/json.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import type { Skill } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import {
  CLOCK,
  component,
  LOG,
  type PackageExtras,
  Publisher,
  payloadOf,
  type Unbound,
} from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('audit', sharedStack())
const acme = await Publisher.listed('audit-acme', fixtures.root)
const plain = await component()
const reviewer = await fixtures.operator(['admin'])

const manifest = (change: Partial<Unbound> = {}): Unbound =>
  acme.manifest(fixtures.name(), { capabilities: {}, ...change })
const sign = (payload: unknown) => fixtures.root('publishSkill', { body: acme.sign(payload) })
const put = (change: Partial<Unbound> = {}, told: PackageExtras = {}, code = plain) =>
  fixtures.root('publishSkill', { body: acme.pack(manifest(change), code, told) })

type Answer = Awaited<ReturnType<typeof put>>
/** The positions and messages of the faults. */
function faults(answer: Answer): [string, string][] {
  expect(refusalOf(answer)).toBe('422 invalid_skill')
  return answer.ok ? [] : (answer.error.errors ?? []).map(({ at, message }) => [at, message])
}
const warned = ({ warnings }: Skill): string[] => warnings.map(({ code, detail }) => `${code}: ${detail}`)

const HASH = [{ alg: 'SHA-256', content: sha256('another one') }]
const ofThis = (code: Uint8Array) => ({
  component: { name: 'x', hashes: [{ alg: 'SHA-256', content: sha256(code) }] },
})

describe('a bill of materials', () => {
  test.each<[string, Record<string, unknown>, string, RegExp]>([
    [
      'without a component',
      { metadata: {} },
      '/sbom/metadata/component',
      /describe the skill’s component in `metadata.component`/,
    ],
    [
      'of another component',
      { metadata: { component: { name: 'x', hashes: HASH } } },
      '/sbom/metadata/component/hashes',
      /no hash is the component’s SHA-256, `[0-9a-f]{64}`; make the bill for the component that was built/,
    ],
    [
      'with a weaker digest',
      { metadata: { component: { name: 'x', hashes: [{ alg: 'MD5', content: 'ff' }] } } },
      '/sbom/metadata/component/hashes',
      /no hash is the component’s SHA-256/,
    ],
    [
      'in another format',
      { bomFormat: 'SPDX' },
      '/sbom/bomFormat',
      /write the bill of materials in CycloneDX/,
    ],
    [
      'of an unsupported version',
      { specVersion: '1.0' },
      '/sbom/specVersion',
      /version 1.4, 1.5, 1.6 of CycloneDX/,
    ],
    [
      'without a list',
      { components: undefined },
      '/sbom/components',
      /list what is linked into the component in `components`; if nothing, write `\[\]`/,
    ],
    [
      'with a component without a name',
      { components: [{ version: '1' }] },
      '/sbom/components/name',
      /give each component its `name`/,
    ],
    [
      'with a component without a version',
      { components: [{ name: 'left-pad', version: '' }] },
      '/sbom/components/version',
      /give each component its `version`/,
    ],
    [
      'with a nested component without a version',
      { components: [{ name: 'a', version: '1', components: [{ name: 'b' }] }] },
      '/sbom/components/version',
      /give each component its `version`/,
    ],
    [
      'with an invalid purl',
      { components: [{ name: 'a', version: '1', purl: 'npm/a@1' }] },
      '/sbom/components/purl',
      /write a `purl` as `pkg:type\/name@version`/,
    ],
    ['with a list entry that is no component', { components: ['left-pad'] }, '/sbom/components', /./],
  ])('a bill of materials %s is refused', async (_, change, at, message) => {
    expect(faults(await put({}, { sbom: change }))).toEqual([[at, expect.stringMatching(message)]])
  })

  test.each(['1.4', '1.5', '1.6'])(
    'a bill of materials of version %s is read, and all its components are stored, nested ones too',
    async (specVersion) => {
      const components = [
        {
          name: 'outer',
          version: '2.0.0',
          components: [{ name: 'inner', version: '0.1.0', purl: 'pkg:cargo/inner@0.1.0' }],
        },
        { type: 'library', name: 'by-hand', version: '1', licenses: [{ license: { id: 'MIT' } }] },
      ]
      const metadata = {
        component: { ...ofThis(plain).component, components: [{ name: 'assembled', version: '3' }] },
      }
      const { contents } = unwrap(await put({}, { sbom: { specVersion, components, metadata } }))
      expect(contents.parts).toEqual([
        { name: 'outer', version: '2.0.0' },
        { name: 'by-hand', version: '1' },
        { name: 'assembled', version: '3' },
        { name: 'inner', version: '0.1.0', purl: 'pkg:cargo/inner@0.1.0' },
      ])
    },
  )

  test('a bill of materials that is too long, or has too many components, is refused', async () => {
    const many = (n: number) => Array.from({ length: n }, (_, i) => ({ name: `c${i}`, version: '1' }))
    expect(
      unwrap(await put({}, { sbom: { components: many(LIMITS.skill_parts) } })).contents.parts,
    ).toHaveLength(LIMITS.skill_parts)
    expect(faults(await put({}, { sbom: { components: many(LIMITS.skill_parts + 1) } }))).toEqual([
      ['/sbom/components', expect.stringContaining('more than 1000 components')],
    ])
    expect(faults(await put({}, { sbom: { note: 'x'.repeat(LIMITS.skill_sbom_bytes) } }))).toEqual([
      ['/sbom', expect.stringContaining('shorten it to')],
    ])
    const long = [{ name: 'x'.repeat(LIMITS.skill_told_chars + 1), version: '1' }]
    expect(faults(await put({}, { sbom: { components: long } }))).toHaveLength(1)
  })
})

describe('a provenance', () => {
  test.each<[string, Record<string, unknown>, string, RegExp]>([
    [
      'of another component',
      { subject: [{ name: 'x', digest: { sha256: sha256('another one') } }] },
      '/provenance/subject',
      /no subject has the component’s SHA-256, `[0-9a-f]{64}`; use the provenance of this build/,
    ],
    [
      'with a weaker digest',
      { subject: [{ name: 'x', digest: { sha1: 'ff' } }] },
      '/provenance/subject',
      /no subject has the component’s SHA-256/,
    ],
    ['without a subject', { subject: [] }, '/provenance/subject', /name the component as `subject`/],
    [
      'that is not a statement',
      { _type: 'https://example.org/note' },
      '/provenance/_type',
      /write the provenance as an in-toto statement/,
    ],
    [
      'in another format',
      { predicateType: 'https://slsa.dev/provenance/v0.2' },
      '/provenance/predicateType',
      /use `"predicateType": "https:\/\/slsa.dev\/provenance\/v1"`/,
    ],
    [
      'without a builder',
      { predicate: { buildDefinition: { buildType: 'x' }, runDetails: { builder: { id: '' } } } },
      '/provenance/predicate/runDetails/builder/id',
      /write in `runDetails.builder.id` what built it/,
    ],
    [
      'without a build type',
      { predicate: { buildDefinition: {}, runDetails: { builder: { id: 'x' } } } },
      '/provenance/predicate/buildDefinition/buildType',
      /write in `buildDefinition.buildType` how it was built/,
    ],
  ])('a provenance %s is refused', async (_, change, at, message) => {
    expect(faults(await put({}, { provenance: change }))).toEqual([[at, expect.stringMatching(message)]])
  })

  test('the builder and build type of a provenance are shown with the version', async () => {
    const { contents } = unwrap(await put())
    expect(contents.provenance).toMatchObject({
      builder: 'test',
      build_type: 'https://countersign.example/hand-made',
    })
  })

  test('a provenance that is too long is refused', async () => {
    expect(
      faults(await put({}, { provenance: { note: 'x'.repeat(LIMITS.skill_provenance_bytes) } })),
    ).toEqual([['/provenance', expect.stringContaining('shorten it to')]])
  })
})

test.each(['component_sha256', 'sbom_sha256', 'provenance_sha256'] as const)(
  'W14 a package whose `%s` is that of something else is refused',
  async (name) => {
    const payload = payloadOf(manifest(), plain)
    const integrity = { ...payload.manifest.integrity, [name]: sha256('another one') }
    expect(faults(await sign({ ...payload, manifest: { ...payload.manifest, integrity } }))).toEqual([
      [`/manifest/integrity/${name}`, expect.stringContaining(payload.manifest.integrity[name])],
    ])
  },
)

test('a tool whose full name is longer than 50 characters, or is reserved, is refused', async () => {
  const named = (id: string, name: string) =>
    put({ id, tools: [{ name, description: 'a tool', input_schema: { type: 'object' } }] })
  const id = `${fixtures.name()}-${'x'.repeat(30)}`
  const longest = 'y'.repeat(50 - id.length - '_'.length)
  const long = `${id}_${longest}z`
  expect(faults(await named(id, `${longest}z`))).toEqual([
    [
      '/manifest/tools',
      `agents would call the tool \`${long}\`, which has 51 characters; model providers accept at most 50: shorten the skill’s id or the tool’s name`,
    ],
  ])
  unwrap(await named(id, longest))
  expect(faults(await named('countersign', 'result'))).toEqual([
    ['/manifest/tools', expect.stringMatching(/^`countersign_result` is reserved: .*choose another name$/)],
  ])
})

test('a skill’s id and the names of its tools contain no dot', async () => {
  const tools = [{ name: 'mail.send', description: 'a tool', input_schema: { type: 'object' } }]
  const rule = 'must be 1 to 50 of `a-z`, `0-9`, `_` and `-`, beginning with a letter'
  expect(faults(await put({ id: `${fixtures.name()}.more` }))).toEqual([['/manifest/id', rule]])
  expect(faults(await put({ tools }))).toEqual([['/manifest/tools/0/name', rule]])
})

test('W14 a bill of materials or provenance that was changed after signing is refused, even if it is valid', async () => {
  const payload = payloadOf(manifest(), plain)
  for (const part of ['sbom', 'provenance'] as const) {
    const changed = { ...payload[part], note: 'a word more' }
    expect(faults(await sign({ ...payload, [part]: changed }))).toEqual([
      [`/manifest/integrity/${part}_sha256`, expect.stringContaining(digestOf(changed))],
    ])
  }
})

describe('capabilities', () => {
  test('W11 a component that imports an undeclared capability is refused', async () => {
    const code = await component({ imports: [LOG, CLOCK], run: [w.UNREACHABLE] })
    expect(faults(await put({ capabilities: { log: true } }, {}, code))).toEqual([
      [
        '/manifest/capabilities',
        expect.stringMatching(
          /imports `clock`, which the manifest does not declare; declare it, or build without it/,
        ),
      ],
    ])
    expect(unwrap(await put({ capabilities: { log: true, clock: true } }, {}, code)).imports.sort()).toEqual([
      'clock',
      'log',
    ])
  })

  test('a declared capability is granted only if policy permits it', async () => {
    const http = { hosts: ['api.example.com:443'], methods: ['GET' as const] }
    const skill = unwrap(await put({ capabilities: { http, secrets: ['token'] } }))
    unwrap(
      await reviewer.client('enableSkill', { params: { id: skill.id, version: skill.version }, body: {} }),
    )
    const agent = await fixtures.agent()
    const decided = async () =>
      unwrap(await agent.client('decide', { body: { tool: `${skill.id}_run`, args: {} } })).decision
    const forbid = (when: string) =>
      `@id("none") forbid (principal, action == Action::"tool.execute/${skill.id}_run", resource) when { ${when} };`
    for (const when of [
      'context.capabilities.contains("network")',
      'context.capabilities.contains("secrets_read")',
      'context.plan.egress_hosts.contains("api.example.com:443")',
    ])
      await fixtures.withPolicies({ none: forbid(when) }, async () =>
        expect([when, (await decided()).policies]).toEqual([when, ['none']]),
      )
    await fixtures.withPolicies(
      { none: forbid('context.capabilities.contains("filesystem_write")') },
      async () => expect((await decided()).policies).not.toContain('none'),
    )
  })

  test('W11 a component that imports another world, such as a file system, is refused', async () => {
    const wit =
      'package wasi:filesystem@0.2.0; interface types { stat: func() -> u32; } world skill { import types; export run: func(tool: string, input: string) -> result<string, string>; }'
    const imports = [{ from: 'wasi:filesystem/types@0.2.0', name: 'stat', params: [], results: [w.I32] }]
    const answer = await put({}, {}, await component({ imports }, wit))
    expect(refusalOf(answer)).toBe('422 invalid_skill')
    expect(answer.ok ? '' : answer.error.detail).toMatch(/wasi:filesystem\/types@0.2.0/)
  })

  test('a component that exports more than `run` is refused', async () => {
    const exports = Array.from({ length: 130 }, (_, i) => `export more-x${i}: func();`).join(' ')
    const others = Array.from({ length: 130 }, (_, i) => ({
      params: [],
      results: [],
      as: `more-x${i}`,
      body: [],
    }))
    const wit = `package countersign:skill@0.1.0; world skill { ${exports} export run: func(tool: string, input: string) -> result<string, string>; }`
    const answer = await put({}, {}, await component({ others }, wit))
    expect(answer.ok ? '' : `${answer.error.code}: ${answer.error.detail}`).toMatch(
      /^invalid_skill: .*must export exactly `run`/,
    )
  })

  test('a wildcard without an opt-in is refused', async () => {
    const capabilities = {
      http: { hosts: ['api.example.com', '.example.org'], methods: ['GET' as const] },
      kv: [''],
    }
    expect(faults(await put({ capabilities }))).toEqual([
      [
        '/manifest/capabilities/http',
        '`.example.org` stands for hosts that are not listed; list those that are needed, or opt in with `wildcards = ["http"]`',
      ],
      [
        '/manifest/capabilities/kv',
        'an empty prefix grants all keys; list those that are needed, or opt in with `wildcards = ["kv"]`',
      ],
    ])
    expect(faults(await put({ capabilities, wildcards: ['http'] }))).toHaveLength(1)
    const warnings = warned(unwrap(await put({ capabilities, wildcards: ['http', 'kv'] })))
    expect(warnings).toContain(
      'wildcard_host: it may reach every host under `example.org`, and those are not listed anywhere',
    )
    expect(warnings).toContain('wildcard_kv: it may use all keys of its storage')
  })

  test.each([
    'localhost',
    'localhost:8080',
    '.localhost',
    'redis',
    'redis:6379',
    '.local',
    'metadata.google.internal',
    '127.0.0.1:8080',
    '10.0.0.1',
    '169.254.169.254:80',
    '93.184.215.14:443',
  ])(
    'D13 a manifest with host `%s`, which no skill can reach, is refused when it is published',
    async (host) => {
      const http = { hosts: ['api.example.com', host], methods: ['GET' as const] }
      expect(faults(await put({ capabilities: { http }, wildcards: ['http'] }))).toEqual([
        [
          '/manifest/capabilities/http',
          expect.stringContaining(`\`${host}\` can never be reached: the address`),
        ],
      ])
    },
  )

  test('a credential for an unlisted host, or two for one header, are refused', async () => {
    const http = { hosts: ['api.example.com'], methods: ['GET' as const] }
    const credential = (host: string) => ({ secret: 'token', host, header: 'authorization' })
    expect(
      faults(await put({ capabilities: { http, credentials: [credential('other.example.com:443')] } })),
    ).toEqual([
      [
        '/manifest/capabilities/credentials',
        expect.stringContaining('`other.example.com:443` is not one of the hosts of `http`'),
      ],
    ])
    expect(
      faults(await put({ capabilities: { credentials: [credential('api.example.com:443')] } })),
    ).toHaveLength(1)
    const twice = [
      credential('api.example.com:443'),
      { ...credential('api.example.com:443'), secret: 'other' },
    ]
    expect(faults(await put({ capabilities: { http, credentials: twice } }))).toEqual([
      ['/manifest/capabilities/credentials', expect.stringContaining('declare each header of a host once')],
    ])
    unwrap(await put({ capabilities: { http, credentials: [credential('api.example.com:443')] } }))
  })
})

describe('warnings', () => {
  const TYPED = [
    {
      name: 'run',
      description: 'does it',
      input_schema: { type: 'object' },
      output_schema: { type: 'object' },
    },
  ]

  test('a skill that declares what it uses and returns has no warnings', async () => {
    expect(warned(unwrap(await put({ tools: TYPED })))).toEqual([])
  })

  test.each<[string, Partial<Unbound>, PackageExtras, RegExp]>([
    [
      'an unused capability',
      { capabilities: { random: true } },
      {},
      /^unused_capability: `random` is declared, but the component does not import it/,
    ],
    [
      'an unused opt-in',
      { wildcards: ['http'] },
      {},
      /^wildcard_idle: it opts in to wildcards for `http`, but uses none$/,
    ],
    [
      'a tool without an output schema',
      { tools: [{ name: 'run', description: 'x', input_schema: { type: 'object' } }] },
      {},
      /^untyped_output: `run` declares no output schema/,
    ],
    [
      'much more fuel than the default',
      { limits: { fuel: 5_000_000_000 } },
      {},
      /^high_limit: it asks for a `fuel` of 5000000000; the default is 500000000$/,
    ],
    ['an empty bill of materials', {}, { sbom: { components: [] } }, /^empty_sbom: /],
    [
      'a secret that the skill reads itself',
      { capabilities: { secrets: ['token'] } },
      {},
      /^reads_secret: it reads the secret `token` itself/,
    ],
  ])('a skill version has a warning for %s', async (_, change, told, warning) => {
    const skill = unwrap(await put({ tools: TYPED, ...change }, told))
    expect(warned(skill).filter((one) => warning.test(one))).toHaveLength(1)
    const stored = unwrap(
      await fixtures.root('readSkill', { params: { id: skill.id, version: skill.version } }),
    )
    expect(stored.warnings).toEqual(skill.warnings)
    const listed = unwrap(await fixtures.root('listSkills', { query: { id: skill.id } })).items[0]
    expect(listed?.warnings).toEqual(skill.warnings)
  })
})

test('a published package can be downloaded as it was signed, byte for byte', async () => {
  const packed = acme.pack(manifest(), plain)
  const { id, version } = unwrap(await fixtures.root('publishSkill', { body: packed }))
  expect(unwrap(await fixtures.root('readSkillPackage', { params: { id, version } }))).toEqual(packed)
  expect(refusalOf(await fixtures.root('readSkillPackage', { params: { id, version: '9.9.9' } }))).toBe(
    '404 not_found',
  )
})

describe('denied components', () => {
  const deny = (items: { pattern: string; reason: string }[]) =>
    fixtures.root('putDeniedParts', { body: { items } })
  const lodash = { components: [{ name: 'lodash', version: '4.17.20', purl: 'pkg:npm/lodash@4.17.20' }] }
  afterAll(async () => void (await deny([])))

  test.each(['lodash@4.17.20', 'lodash@4.*', 'lodash@*', 'pkg:npm/lodash@4.17.20', 'pkg:npm/lodash@*'])(
    'denying the component `%s` prevents publishing and enabling, and marks enabled skills',
    async (pattern) => {
      const [waiting, running] = [
        unwrap(await put({}, { sbom: lodash })),
        unwrap(await put({}, { sbom: lodash })),
      ]
      const enable = ({ id, version }: Skill) =>
        reviewer.client('enableSkill', { params: { id, version }, body: {} })
      unwrap(await enable(running))
      unwrap(await deny([{ pattern, reason: 'CVE-2021-23337' }]))
      const answer = await put({}, { sbom: lodash })
      expect(answer.ok ? '' : `${answer.error.code}: ${answer.error.detail}`).toBe(
        'part_denied: it contains `lodash@4.17.20`: CVE-2021-23337',
      )
      expect(refusalOf(await enable(waiting))).toBe('409 part_denied')
      const listed = unwrap(await fixtures.root('listSkills', { query: { id: running.id } })).items[0]
      expect(listed).toMatchObject({
        state: 'enabled',
        denied: ['it contains `lodash@4.17.20`: CVE-2021-23337'],
      })
      unwrap(await deny([]))
      unwrap(await enable(waiting))
    },
  )

  test('a denied component matches only its own name and version', async () => {
    const reason = 'a test'
    unwrap(
      await deny(
        ['lodash@4.17.2', 'odash@*', 'lodash@4.17.200', 'pkg:npm/lodash-es@*', 'LODASH@*'].map((pattern) => ({
          pattern,
          reason,
        })),
      ),
    )
    unwrap(await put({}, { sbom: lodash }))
  })

  test('a denied component is found inside another component', async () => {
    unwrap(await deny([{ pattern: 'lodash@*', reason: 'a test' }]))
    const sbom = { components: [{ name: 'outer', version: '1', components: lodash.components }] }
    expect(refusalOf(await put({}, { sbom }))).toBe('409 part_denied')
  })

  test.each(['*', 'lodash', '', 'a b@1', '*@1', 'a*b@1', 'lodash@1**', 'x'.repeat(600)])(
    '`%s` is refused as a component to deny',
    async (pattern) => {
      expect(refusalOf(await deny([{ pattern, reason: 'a test' }]))).toBe('400 invalid_request')
    },
  )

  test('a denied component is listed and journalled with who denied it and why', async () => {
    const items = unwrap(await deny([{ pattern: 'xz@5.6.*', reason: 'a back door' }])).items
    expect(items).toMatchObject([{ pattern: 'xz@5.6.*', reason: 'a back door', by: 'root' }])
    expect(unwrap(await fixtures.root('listDeniedParts', {})).items).toEqual(items)
    expect(
      refusalOf(await deny([...items, ...items].map(({ pattern, reason }) => ({ pattern, reason })))),
    ).toBe('400 invalid_request')
  })
})
