// Promise: a package is one signed text in canonical form, with bounded size and strict members at
// each level. A changed byte, a duplicate or unknown member or another spelling refuses it,
// cheaply.

import { sign } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { canonical } from '../../../../shared/bytes/json.ts'
import { seal } from '../../../../shared/evidence/dsse.ts'
import { LIMITS } from '../../../../shared/limits.ts'
import { SKILL_TYPE, type SkillPackage } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import { RawRequest } from '../../../support/http/raw-http.ts'
import { component, Publisher, payloadOf } from '../../../support/skills/skill.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('package', sharedStack())
const acme = await Publisher.listed('package-acme', fixtures.root)
const umbrella = await Publisher.listed('package-umbrella', fixtures.root)
const maker = await fixtures.operator(['admin'])
const plain = await component()

const publish = (body: SkillPackage) => maker.client('publishSkill', { body })

/** A signed package of exactly these bytes. */
function signedText(text: string | Uint8Array): SkillPackage {
  const payload = Buffer.from(text)
  const signed = Buffer.concat([
    Buffer.from(`DSSEv1 ${SKILL_TYPE.length} ${SKILL_TYPE} ${payload.byteLength} `),
    payload,
  ])
  const sig = sign(null, signed, acme.signer.key).toString('base64')
  return {
    payloadType: SKILL_TYPE,
    payload: payload.toString('base64'),
    signatures: [{ keyid: acme.signer.kid, sig }],
  }
}

describe('the package format', () => {
  const payload = () => payloadOf(acme.manifest(fixtures.name()), plain)
  const withManifest = (change: Record<string, unknown>) => {
    const one = payload()
    return { ...one, manifest: { ...one.manifest, ...change } }
  }

  test('W15 control: a package signed by hand in this test is accepted', async () => {
    expect(unwrap(await publish(signedText(canonical(payload())))).state).toBe('quarantined')
  })

  test('W14 a package with any byte changed is refused', async () => {
    const packed = acme.pack(acme.manifest(fixtures.name()), plain)
    const bytes = Buffer.from(packed.payload, 'base64')
    const [signature] = packed.signatures
    if (signature === undefined) throw new Error('it has no signature')
    const places = Array.from({ length: 60 }, (_, i) => Math.floor((i * (bytes.length - 1)) / 59))
    for (const at of places) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 7))
      const code = refusalOf(await publish({ ...packed, payload: changed.toString('base64') }))
      expect([at, code]).toEqual([at, expect.stringMatching(/^422 (?:invalid_skill|publisher_unknown)$/)])
    }
    const sig = Buffer.from(signature.sig, 'base64')
    for (let at = 0; at < sig.length; at += 7) {
      const changed = Buffer.from(sig)
      changed[at] = (changed[at] ?? 0) ^ 1
      expect([
        at,
        refusalOf(
          await publish({ ...packed, signatures: [{ ...signature, sig: changed.toString('base64') }] }),
        ),
      ]).toEqual([at, '422 invalid_skill'])
    }
    expect(unwrap(await publish(packed)).state).toBe('quarantined')
  })

  test.each<[string, () => unknown]>([
    ['at the top level', () => ({ ...payload(), more: 'a file' })],
    ['in the manifest', () => withManifest({ dev: true })],
    [
      'in a tool',
      () => withManifest({ tools: [{ name: 'run', description: 'x', input_schema: {}, more: true }] }),
    ],
    ['in its capabilities', () => withManifest({ capabilities: { filesystem: true } })],
    [
      'in one capability',
      () => withManifest({ capabilities: { http: { hosts: ['a.example'], methods: ['GET'], ports: [1] } } }),
    ],
    [
      'in a credential',
      () =>
        withManifest({
          capabilities: {
            credentials: [{ secret: 's', host: 'a.example:443', header: 'authorization', tls: 'intercept' }],
          },
        }),
    ],
    ['in its limits', () => withManifest({ limits: { cpu: 1 } })],
    ['in `compat`', () => withManifest({ compat: { world: '0.1.0', edge: '1' } })],
    [
      'in `integrity`',
      () => withManifest({ integrity: { ...payload().manifest.integrity, more: '0'.repeat(64) } }),
    ],
  ])('W15 a package with an unknown member is refused: %s', async (_, value) => {
    expect(refusalOf(await publish(acme.sign(value())))).toBe('422 invalid_skill')
  })

  test.each(['manifest', 'component', 'sbom', 'provenance'])(
    'W15 a package without `%s` is refused',
    async (name) => {
      expect(refusalOf(await publish(acme.sign({ ...payload(), [name]: undefined })))).toBe(
        '422 invalid_skill',
      )
    },
  )

  test('W15 a package with a duplicate member is refused, at each level', async () => {
    const text = canonical(payload())
    for (const member of ['"component":', '"format":', '"description":', '"name":', '"sbom":']) {
      const twice = text.replace(member, `${member}"x",${member}`)
      const answer = await publish(signedText(twice))
      expect([member, answer.ok ? '' : answer.error.detail]).toEqual([
        member,
        expect.stringMatching(/appears twice/),
      ])
    }
  })

  test('W15 a package in a spelling other than the canonical one is refused', async () => {
    const one = payload()
    for (const text of [
      ` ${canonical(one)}`,
      JSON.stringify(one, null, 1),
      canonical(one).replace('"format"', '"\\u0066ormat"'),
    ])
      expect(refusalOf(await publish(signedText(text)))).toBe('422 invalid_skill')
    const packed = acme.sign(one)
    for (const spelled of [`${packed.payload} `, packed.payload.replace(/=*$/, ''), `${packed.payload}\n`]) {
      if (spelled !== packed.payload)
        expect(refusalOf(await publish({ ...packed, payload: spelled }))).toMatch(
          /^(?:422 invalid_skill|400 invalid_request)$/,
        )
    }
    expect(refusalOf(await publish(acme.sign({ ...one, component: `${one.component} ` })))).toBe(
      '422 invalid_skill',
    )
  })

  test('W15 a package that expands, nests deeply or has a thousand entries is refused before it costs much', async () => {
    const begun = performance.now()
    const deep = `${'['.repeat(60_000)}${']'.repeat(60_000)}`
    for (const text of [
      deep,
      `{"manifest":${deep}}`,
      `[${'0,'.repeat(60_000)}0]`,
      canonical({
        ...payload(),
        sbom: Object.fromEntries(Array.from({ length: 60_000 }, (_, i) => [`f${i}`, i])),
      }),
      canonical(payloadOf(acme.manifest(fixtures.name()), Buffer.alloc(4 * 1024 * 1024 + 1))),
      'PK\u0003\u0004',
      gzipSync(canonical(payload())),
      '',
      'null',
      '"x"',
      '[]',
    ])
      expect(refusalOf(await publish(signedText(text)))).toBe('422 invalid_skill')
    expect(performance.now() - begun).toBeLessThan(20_000)
  })

  test('W15 a package whose announced length is too large is refused before its body is read', async () => {
    const headers = [
      `authorization: Bearer ${maker.key}`,
      'content-type: application/json',
      `content-length: ${LIMITS.skill_package_bytes + 1}`,
    ]
    const request = new RawRequest(fixtures.url)
    onTestFinished(() => request.end())
    const answer = await request.head('PUT', '/v1/skills', headers).answered(5_000)
    expect([answer.status, answer.text]).toEqual([413, expect.stringContaining('body_too_large')])
  })

  test('W15 a package with two signatures, none, or one of another kind is refused', async () => {
    const packed = acme.sign(payload())
    for (const signatures of [
      [],
      [...packed.signatures, ...packed.signatures],
      [...packed.signatures, ...umbrella.sign(payload()).signatures],
    ])
      expect(refusalOf(await publish({ ...packed, signatures } as SkillPackage))).toBe('400 invalid_request')
    expect(
      refusalOf(
        await publish({ ...packed, payloadType: 'application/vnd.in-toto+json' } as unknown as SkillPackage),
      ),
    ).toBe('400 invalid_request')
    const asStatement = seal('application/vnd.in-toto+json', payload(), acme.signer) // T01
    expect(refusalOf(await publish({ ...asStatement, payloadType: SKILL_TYPE }))).toBe('422 invalid_skill')
  })

  test.each([
    '..',
    '../up',
    'a/b',
    'a:b',
    'A',
    '',
    '.',
    '-a',
    'a b',
    'a\\b',
    'é',
    'x'.repeat(65),
    '__proto__',
  ])('W15 `%s` is refused as the name of a skill, tool or publisher, and as a version', async (name) => {
    const tools = [{ name, description: 'x', input_schema: { type: 'object' } }]
    for (const change of [{ id: name }, { version: name }, { publisher: name }, { tools }])
      expect(refusalOf(await publish(acme.sign(withManifest(change))))).toBe('422 invalid_skill')
  })

  test('W15 a skill with a tool name that is too long or occurs twice is refused', async () => {
    const tool = (name: string) => ({ name, description: 'x', input_schema: { type: 'object' } })
    const put = (tools: unknown[]) => publish(acme.sign(withManifest({ tools })))
    expect(refusalOf(await put([tool('a'), tool('a')]))).toBe('422 invalid_skill')
    expect(refusalOf(await put([tool('x'.repeat(60))]))).toBe('422 invalid_skill')
    expect(refusalOf(await put([]))).toBe('422 invalid_skill')
    expect(refusalOf(await put(Array.from({ length: 257 }, (_, i) => tool(`t${i}`))))).toBe(
      '422 invalid_skill',
    )
  })

  test.each([
    '.',
    '..',
    '.:443',
    '*',
    '*.example.com',
    '',
    'https://a.example',
    'a.example/',
    'user@a.example',
    'A.example',
    'a..b',
    'a.example:0',
  ])('W15 a manifest with the host `%s` is refused', async (host) => {
    const capabilities = { http: { hosts: [host], methods: ['GET'] } }
    expect(refusalOf(await publish(acme.sign(withManifest({ capabilities, wildcards: ['http'] }))))).toBe(
      '422 invalid_skill',
    )
  })

  test('W15 a manifest with an invalid key prefix, or an empty list of them, is refused', async () => {
    for (const prefix of ['..', 'a/../b', '/a', ' ', 'a\u0000', 'x'.repeat(129)])
      expect(
        refusalOf(
          await publish(acme.sign(withManifest({ capabilities: { kv: [prefix] }, wildcards: ['kv'] }))),
        ),
      ).toBe('422 invalid_skill')
    expect(refusalOf(await publish(acme.sign(withManifest({ capabilities: { kv: [] } }))))).toBe(
      '422 invalid_skill',
    )
    expect(refusalOf(await publish(acme.sign(withManifest({ capabilities: { secrets: [''] } }))))).toBe(
      '422 invalid_skill',
    )
  })

  test('a call can’t bring code of a skill: no module, no source text, no other skill', async () => {
    const agent = await fixtures.agent()
    const id = fixtures.name()
    unwrap(await publish(acme.pack(acme.manifest(id), plain)))
    unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    for (const inline of [
      { module: 'AGFzbQ==' },
      { wat: '(module)' },
      { skill: 'another' },
      { component: 'AGFzbQ==', skill: id },
      { digest: '0'.repeat(64) },
    ]) {
      const body = { tool: `${id}_run`, args: {}, ...inline }
      expect(refusalOf(await agent.client('proposeCallInNewRun', { body }))).toBe('400 invalid_request')
    }
    const text = Buffer.from('(module)')
    expect(refusalOf(await publish(acme.pack(acme.manifest(fixtures.name()), text)))).toBe(
      '422 invalid_skill',
    )
    expect(refusalOf(await publish(acme.sign({ ...payload(), component_wat: '(module)' })))).toBe(
      '422 invalid_skill',
    )
  })
})
