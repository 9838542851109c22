// Promise: a published skill is signed by its publisher, is a component of exactly our world, can
// be metered, and runs only after somebody else enabled it. No package breaks or delays the edge.

import { beforeAll, describe, expect, test } from 'vitest'
import type { SkillPackage } from '../../../../shared/wire/skills.ts'
import { Fixtures, refusalOf, unwrap } from '../../../support/fixtures.ts'
import {
  assemble,
  component,
  LOG,
  type Parts,
  Publisher,
  type Unbound,
} from '../../../support/skills/skill.ts'
import * as w from '../../../support/skills/wasm.ts'
import { sharedStack } from '../../../support/stack/stack.ts'

const fixtures = new Fixtures('publish', sharedStack())
const acme = new Publisher('publish-acme')
const umbrella = new Publisher('publish-umbrella')
const nobody = new Publisher('publish-nobody')
let maker: Awaited<ReturnType<Fixtures['operator']>>
let plain: Uint8Array

beforeAll(async () => {
  maker = await fixtures.operator(['admin'])
  for (const { name, signer } of [acme, umbrella])
    unwrap(await fixtures.root('putPublisher', { params: { name }, body: { keys: [signer.x] } }))
  plain = await component()
})

const publish = (body: SkillPackage) => maker.client('publishSkill', { body })
const put = (code: Uint8Array, change: Partial<Unbound> = {}) =>
  publish(acme.pack(acme.manifest(fixtures.name(), change), code))
/** Why publishing it is refused. */
async function why(code: Uint8Array, change: Partial<Unbound> = {}): Promise<string> {
  const answer = await put(code, change)
  return answer.ok ? 'no refusal' : `${answer.error.status} ${answer.error.code}: ${answer.error.detail}`
}
const worldOf = (inside: string): string => `package countersign:skill@0.1.0;
${inside}`
const many = <T>(count: number, made: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => made(i))
const ELEMENTS = `(elem (i32.const 0) func ${'0 '.repeat(10_000)})`
const RUN = 'export run: func(tool: string, input: string) -> result<string, string>;'

describe('publishing', () => {
  test('a published skill is quarantined, and can’t be called until somebody else enables it', async () => {
    const id = fixtures.name()
    const skill = unwrap(await publish(acme.pack(acme.manifest(id), plain)))
    expect(skill).toMatchObject({
      id,
      state: 'quarantined',
      published_by: maker.name,
      signed_by: acme.signer.kid,
      imports: [],
      changes: [],
    })
    expect(refusalOf(await fixtures.root('readTool', { params: { name: `${id}_run` } }))).toBe(
      '404 not_found',
    )
    expect(refusalOf(await maker.client('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))).toBe(
      '403 forbidden',
    )
    unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    expect(unwrap(await fixtures.root('readTool', { params: { name: `${id}_run` } })).executor).toMatchObject(
      {
        kind: 'skill',
        digest: skill.digest,
      },
    )
  })

  test('a sole admin may enable a skill that they published', async () => {
    const alone = await fixtures.operator(['admin', 'sole-admin'])
    const id = fixtures.name()
    unwrap(await alone.client('publishSkill', { body: acme.pack(acme.manifest(id), plain) }))
    expect(
      unwrap(await alone.client('enableSkill', { params: { id, version: '1.0.0' }, body: {} })).state,
    ).toBe('enabled')
  })

  test('publishing the same package again returns the same version; another package or publisher for it is refused', async () => {
    const id = fixtures.name()
    const first = unwrap(await publish(acme.pack(acme.manifest(id), plain)))
    expect(unwrap(await publish(acme.pack(acme.manifest(id), plain)))).toEqual(first)
    expect(
      refusalOf(await publish(acme.pack(acme.manifest(id, { description: 'another one' }), plain))),
    ).toBe('409 skill_conflict')
    expect(refusalOf(await publish(umbrella.pack(umbrella.manifest(id, { version: '2.0.0' }), plain)))).toBe(
      '409 skill_conflict',
    )
  })

  test('a skill can’t take over an existing tool, and its own tools can’t be changed or deleted by hand', async () => {
    const id = fixtures.name()
    await fixtures.tool({}, `${id}_run`)
    unwrap(await publish(acme.pack(acme.manifest(id), plain)))
    expect(
      refusalOf(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} })),
    ).toBe('409 skill_conflict')
    unwrap(await fixtures.root('deleteTool', { params: { name: `${id}_run` } }))
    unwrap(await fixtures.root('enableSkill', { params: { id, version: '1.0.0' }, body: {} }))
    expect(refusalOf(await fixtures.root('deleteTool', { params: { name: `${id}_run` } }))).toBe(
      '409 conflict',
    )
    await expect(fixtures.tool({}, `${id}_run`)).rejects.toThrow('choose another name')
  })

  test('W14 a package that no listed key signed, or that was changed afterwards, is refused', async () => {
    const packed = acme.pack(acme.manifest(fixtures.name()), plain)
    const claimed = { ...nobody.manifest(fixtures.name()), publisher: acme.name }
    expect(refusalOf(await publish(nobody.pack(nobody.manifest(fixtures.name()), plain)))).toBe(
      '422 publisher_unknown',
    )
    expect(refusalOf(await publish(nobody.pack(claimed, plain)))).toBe('422 publisher_unknown')
    const [signature] = packed.signatures
    if (signature === undefined) throw new Error('it has no signature')
    const { sig } = nobody.pack(claimed, plain).signatures[0] ?? signature
    for (const changed of [
      { ...packed, signatures: [{ ...signature, sig }] },
      { ...packed, payload: acme.pack(acme.manifest(fixtures.name()), plain).payload },
    ])
      expect(refusalOf(await publish(changed))).toBe('422 invalid_skill')
    unwrap(await publish(packed))
    unwrap(await fixtures.root('deletePublisher', { params: { name: umbrella.name } }))
    expect(refusalOf(await publish(umbrella.pack(umbrella.manifest(fixtures.name()), plain)))).toBe(
      '422 publisher_unknown',
    )
    unwrap(
      await fixtures.root('putPublisher', {
        params: { name: umbrella.name },
        body: { keys: [umbrella.signer.x] },
      }),
    )
  })
})

describe('components that are refused', () => {
  test.each<[string, Parts, string, RegExp]>([
    [
      'W11 an import that skills may not have',
      { imports: [{ from: 'countersign:skill/disk@0.1.0', name: 'get', params: [w.I32, w.I32, w.I32] }] },
      worldOf(`interface disk { get: func(name: string) -> string; } world skill { import disk; ${RUN} }`),
      /it imports `countersign:skill\/disk@0.1.0`, which skills may not import$/,
    ],
    [
      'W07 a capability with another type, which would make the host lift without end',
      { imports: [{ ...LOG, params: [w.I32, w.I32] }] },
      worldOf(`interface log { write: func(words: list<string>); } world skill { import log; ${RUN} }`),
      /its import `countersign:skill\/log@0.1.0` does not have the types of/,
    ],
    [
      'W07 a result of another type',
      {},
      worldOf(
        'world skill { export run: func(tool: string, input: string) -> result<list<string>, string>; }',
      ),
      /must export exactly `run`/,
    ],
    ['W07 no `run`', {}, worldOf('world skill { }'), /must export exactly `run`/],
    [
      'W07 an error of another type, which would make the host lift without end',
      {},
      worldOf(
        'world skill { export run: func(tool: string, input: string) -> result<string, list<list<u8>>>; }',
      ),
      /must export exactly `run`/,
    ],
    [
      'W09 resources',
      { imports: [{ from: 'countersign:skill/log@0.1.0', name: '[resource-drop]line', params: [w.I32] }] },
      worldOf(`interface log { resource line; } world skill { import log; ${RUN} }`),
      /^422 invalid_skill/,
    ],
  ])('W07 W09 W11: %s: the component is refused', async (_, parts, wit, reason) =>
    expect(await why(await component(parts, wit))).toMatch(reason),
  )

  test.each([
    ['a function', '(export "other" (func $go))'],
    ['an interface', '(instance $all (export "run" (func $go))) (export "a:b/c" (instance $all))'],
  ])('W11 a component that exports %s in addition to `run` is refused', async (_, more) => {
    const shell = (exported: string): Promise<Uint8Array> =>
      assemble(`(component
        (core module $m (memory (export "memory") 2)
          (func (export "run") (param i32 i32 i32 i32) (result i32) (i32.const 16))
          (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768)))
        (core instance $i (instantiate $m))
        (alias core export $i "memory" (core memory $memory)) (alias core export $i "run" (core func $run)) (alias core export $i "realloc" (core func $realloc))
        (type $answer (result string (error string))) (type $f (func (param "tool" string) (param "input" string) (result $answer)))
        (func $go (type $f) (canon lift (core func $run) (memory $memory) (realloc $realloc) string-encoding=utf8))
        (export "run" (func $go)) ${exported})`)
    expect(await why(await shell(more))).toMatch(/must export exactly `run`/)
    unwrap(await put(await shell('')))
  })

  test('W11 a component that imports a capability its manifest does not declare is refused', async () => {
    const code = await component({
      imports: [LOG],
      run: [...w.call(0), ...w.i32(16)].slice(0, 0).concat(w.UNREACHABLE),
    })
    expect(refusalOf(await put(code, { capabilities: { clock: true } }))).toBe('422 invalid_skill')
    expect(unwrap(await put(code, { capabilities: { log: true } })).imports).toEqual(['log'])
  })

  test.each<[string, Parts]>([
    ['W03 more memory than the limit', { memory: { min: 2_000 } }],
    ['W04 a table of ten million elements', { tables: [{ min: 10_000_000 }] }],
    ['W04 more than `skill_tables` tables', { tables: Array.from({ length: 100 }, () => ({ min: 10 })) }],
    ['W06 blocks nested five thousand deep', { run: [...nested(5_000), w.UNREACHABLE] }],
  ])('W03 W04 W06: %s: the component is refused', async (_, parts) =>
    expect(await why(await component(parts))).toMatch(/^422 invalid_skill/),
  )

  test.each([
    [
      'more than `skill_exports` exports, each of which would be wrapped for each call',
      many(1_001, (i) => `(func (export "f${i}"))`).join(''),
      /more than 1000 exports/,
    ],
    [
      'table elements longer than `skill_element_bytes`, which are initialized before anything is charged',
      `(table 10 funcref) (func) ${ELEMENTS.repeat(7)}`,
      /longer than 65536 bytes/,
    ],
  ])('W06 a component that has %s is refused', async (_, parts, reason) => {
    const code = await assemble(`(component
      (core module $other ${parts})
      (core module $m (memory (export "memory") 2)
        (func (export "run") (param i32 i32 i32 i32) (result i32) (i32.const 16))
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 32768)))
      (core instance (instantiate $other)) (core instance $i (instantiate $m))
      (alias core export $i "memory" (core memory $memory)) (alias core export $i "run" (core func $run)) (alias core export $i "realloc" (core func $realloc))
      (type $answer (result string (error string))) (type $f (func (param "tool" string) (param "input" string) (result $answer)))
      (func $go (type $f) (canon lift (core func $run) (memory $memory) (realloc $realloc) string-encoding=utf8))
      (export "run" (func $go)))`)
    expect(await why(code)).toMatch(reason)
  })

  test('a manifest above `skill_manifest_bytes` is refused', async () => {
    const tools = many(10, (i) => ({
      name: `t${i}`,
      description: 'x',
      input_schema: { type: 'object', description: 'x'.repeat(30_000) },
    }))
    expect(await why(plain, { tools })).toMatch(/the manifest is longer than 262144 characters/)
  })

  test('W06 W10 components that are deep, long, truncated or not components are refused before jco reads them', async () => {
    const header = plain.subarray(0, 8)
    const section = (id: number, bytes: Uint8Array): Uint8Array =>
      Buffer.concat([Uint8Array.of(id), leb(bytes.length), bytes])
    const inside = (depth: number): Uint8Array =>
      depth === 0 ? plain : Buffer.concat([header, section(4, inside(depth - 1))])
    const types = section(7, Buffer.concat([leb(5_000), Buffer.alloc(20_000, 0x73)]))
    for (const code of [
      inside(20),
      Buffer.concat([header, types]),
      plain.subarray(0, 100),
      w.wasm({}),
      Uint8Array.of(),
      Buffer.from('not wasm'),
    ])
      expect(refusalOf(await put(code))).toBe('422 invalid_skill')
  })

  test('W06 types that double with each line are refused before they are expanded', async () => {
    // Sixteen levels of result<t, t> kept jco busy for a minute and produced 377 MB of code.
    const doubling = Array.from({ length: 16 }, (_, i) => `type t${i + 1} = result<t${i}, t${i}>;`).join(' ')
    const wit = worldOf(
      `interface log { type t0 = result<u8, u8>; ${doubling} write: func(l: list<t16>); } world skill { import log; ${RUN} }`,
    )
    const code = await component({ imports: [{ ...LOG, params: [w.I32, w.I32] }] }, wit)
    const begun = performance.now()
    expect(await why(code)).toMatch(/one of its types is longer than 400 characters/)
    expect(performance.now() - begun).toBeLessThan(10_000)
  })

  test('W10 a component with any byte changed is accepted or refused, without a crash', async () => {
    let seed = 7
    const random = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
      return seed % below
    }
    const outcomes = new Set<string>()
    for (let i = 0; i < 40; i++) {
      const code = Uint8Array.from(plain)
      code[8 + random(code.length - 8)] = random(256)
      const answer = await put(code)
      outcomes.add(answer.ok ? 'taken' : refusalOf(answer))
    }
    expect([...outcomes].filter((one) => one !== 'taken' && one !== '422 invalid_skill')).toEqual([])
  })
})

const leb = (value: number): Uint8Array =>
  Uint8Array.from(value < 128 ? [value] : [(value & 0x7f) | 0x80, ...leb(value >>> 7)])

function nested(depth: number): w.Code {
  return [
    ...Array.from({ length: depth }, () => [0x02, 0x40]).flat(),
    ...Array.from({ length: depth }, () => 0x0b),
  ]
}
