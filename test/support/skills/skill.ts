// Handmade skills for tests: a core module of a few instructions, wrapped as a component of the
// world, packed and signed by a publisher.

import { generateKeyPairSync } from 'node:crypto'
import * as bindgen from '@bytecodealliance/jco-transpile/component'
import { componentEmbed, componentNew, parse } from '@bytecodealliance/jco-transpile/wasm-tools'
import { digestOf, sha256 } from '../../../shared/bytes/json.ts'
import { BinaryWriter } from '../../../shared/bytes/wasm-binary.ts'
import { type PrivateJwk, type Signer, seal, signerFromJwk } from '../../../shared/evidence/dsse.ts'
import type { Client } from '../../../shared/routes/client.ts'
import { WORLD } from '../../../shared/wire/skill-world.ts'
import { SKILL_TYPE, type SkillManifest, type SkillPackage } from '../../../shared/wire/skills.ts'
import { unwrap } from '../fixtures.ts'
import {
  bulk,
  type Code,
  call,
  type Fn,
  get,
  globalGet,
  globalSet,
  I32,
  I64,
  i32,
  load,
  op,
  REALLOC_SHAPE,
  set,
  store,
  type Written,
  wasm,
  when,
} from './wasm.ts'

const ADD = 0x6a
const AND = 0x71
const MEMORY_COPY = 10

/** Address of `run`'s result: 0 or 1 for ok or error, then address and length of the text. */
const RESULT = 16
const PARAMS = { inputAt: 2, inputLength: 3 } as const

/** The end of `run`: returns a text in memory. */
export const answer = (at: Code, length: Code, kind: 'ok' | 'error' = 'ok'): Code => [
  ...i32(RESULT),
  ...i32(kind === 'ok' ? 0 : 1),
  ...store(),
  ...i32(RESULT + 4),
  ...at,
  ...store(),
  ...i32(RESULT + 8),
  ...length,
  ...store(),
  ...i32(RESULT),
]
/** Returns the input. */
const ECHO: Code = answer(get(PARAMS.inputAt), get(PARAMS.inputLength))

const dataAt = (at: number, words: string): Code => {
  const bytes = [...Buffer.from(words)]
  return [0, ...i32(at), 0x0b, ...new BinaryWriter().u32(bytes.length).bytes(), ...bytes]
}
/** A text in memory, at address 1,024. */
export const text = (words: string): { readonly data: readonly Code[] } => ({ data: [dataAt(1_024, words)] })

/** Address and length of a text placed there as data. */
export const returnText = (words: string, kind: 'ok' | 'error' = 'ok') => ({
  ...text(words),
  run: answer(i32(1_024), i32(Buffer.byteLength(words)), kind),
})

/** `cabi_realloc` that allocates after the first page and never frees. */
const REALLOC: Fn = {
  ...REALLOC_SHAPE,
  locals: [I32],
  body: [
    ...globalGet(0),
    ...i32(7),
    ...op(ADD),
    ...i32(-8),
    ...op(AND),
    ...set(4),
    ...get(4),
    ...get(3),
    ...op(ADD),
    ...globalSet(0),
    ...get(4), // the old content is copied
    ...get(0),
    ...get(1),
    ...bulk(MEMORY_COPY, 0, 0),
    ...get(4),
  ],
}

export type Parts = {
  readonly run?: Code
  readonly locals?: Code
  readonly realloc?: Fn
  /**
   * Imported functions. `run` is the first own function, `cabi_realloc` the second; others follow.
   */
  readonly imports?: Written['importedFunctions']
  readonly others?: readonly Fn[]
  readonly start?: number
  readonly memory?: Written['memory']
  readonly tables?: Written['tables']
  readonly data?: readonly Code[]
}

/** A component of our world, or of another one, around a module of these parts. */
export async function component(parts: Parts = {}, wit = WORLD): Promise<Uint8Array> {
  const {
    run = ECHO,
    locals = [],
    realloc = REALLOC,
    imports = [],
    others = [],
    memory = { min: 32 },
  } = parts
  const module = wasm({
    importedFunctions: imports,
    functions: [
      { params: [I32, I32, I32, I32], results: [I32], locals, as: 'run', body: run },
      realloc,
      ...others,
    ],
    globals: [{ type: I32, mutable: true, init: i32(65_536) }],
    memory: { ...memory, as: 'memory' },
    ...(parts.start === undefined ? {} : { start: parts.start }),
    ...(parts.tables === undefined ? {} : { tables: parts.tables }),
    ...(parts.data === undefined ? {} : { data: parts.data }),
  })
  return componentNew(await componentEmbed({ binary: module, witSource: wit, world: 'skill' }), [])
}

/** Assembles a module or component from the text format. */
export const assemble = (text: string): Promise<Uint8Array> => parse(text)

/** The files that jco generates for a component: types and glue. */
export async function generatedOf(code: Uint8Array): Promise<Map<string, string>> {
  await bindgen.$init
  const { files } = bindgen.generate(code, {
    name: 'component',
    instantiation: { tag: 'sync' },
    noNodejsCompat: true,
  })
  return new Map(
    files
      .filter(([name]) => !name.endsWith('.wasm'))
      .map(([name, bytes]) => [name, Buffer.from(bytes).toString()]),
  )
}

export const LOG = {
  from: 'countersign:skill/log@0.1.0',
  name: 'write',
  params: [I32, I32, I32, I32],
} as const
export const CLOCK = { from: 'countersign:skill/clock@0.1.0', name: 'now', results: [I64] } as const
export const RANDOM = { from: 'countersign:skill/random@0.1.0', name: 'bytes', params: [I32, I32] } as const

/** A manifest as authors write it, without digests. */
export type Unbound = Omit<SkillManifest, 'integrity'>

/** Overrides of the bill of materials and provenance that `payloadOf` would make. */
export type PackageExtras = {
  readonly sbom?: Record<string, unknown>
  readonly provenance?: Record<string, unknown>
}

/** The signed payload: the manifest with digests, the code, bill of materials and provenance. */
export function payloadOf(manifest: Unbound, code: Uint8Array, told: PackageExtras = {}) {
  const component_sha256 = sha256(code)
  const sbom = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    metadata: {
      component: {
        type: 'library',
        name: manifest.id,
        version: manifest.version,
        hashes: [{ alg: 'SHA-256', content: component_sha256 }],
      },
    },
    components: [{ type: 'library', name: 'by-hand', version: '1.0.0', purl: 'pkg:generic/by-hand@1.0.0' }],
    ...told.sbom,
  }
  const provenance = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: [{ name: manifest.id, digest: { sha256: component_sha256 } }],
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: { buildType: 'https://countersign.example/hand-made' },
      runDetails: { builder: { id: 'test' } },
    },
    ...told.provenance,
  }
  const integrity = { component_sha256, sbom_sha256: digestOf(sbom), provenance_sha256: digestOf(provenance) }
  return {
    manifest: { ...manifest, integrity },
    component: Buffer.from(code).toString('base64'),
    sbom,
    provenance,
  }
}

export class Publisher {
  readonly name: string
  readonly signer: Signer

  constructor(name: string) {
    this.name = name
    const jwk = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
    this.signer = signerFromJwk(jwk as PrivateJwk) // an Ed25519 key has these members
  }

  /** Creates a publisher whose key is listed. */
  static async listed(name: string, root: Client): Promise<Publisher> {
    const publisher = new Publisher(name)
    unwrap(await root('putPublisher', { params: { name }, body: { keys: [publisher.signer.x] } }))
    return publisher
  }

  /** Lists the publisher, on an edge whose only admin may enable the skills that they published. */
  async listBySoleAdmin(root: Client): Promise<void> {
    unwrap(await root('putPublisher', { params: { name: this.name }, body: { keys: [this.signer.x] } }))
    const body = { roles: ['admin', 'sole-admin'] }
    unwrap(await root('putOperator', { params: { name: 'root' }, body }))
  }

  /** Publishes and enables a skill; returns the name of its tool `run`. */
  async enable(by: { maker: Client; root: Client }, manifest: Unbound, code: Uint8Array): Promise<string> {
    const { id, version } = manifest
    unwrap(await by.maker('publishSkill', { body: this.pack(manifest, code) }))
    unwrap(await by.root('enableSkill', { params: { id, version }, body: {} }))
    return `${id}_run`
  }

  /** A manifest without the digests, which are added when it is packed. */
  manifest(id: string, change: Partial<Unbound> = {}): Unbound {
    return {
      format: 'countersign-skill/v1',
      id,
      version: '1.0.0',
      publisher: this.name,
      description: 'a skill of a test',
      tools: [{ name: 'run', description: 'does what its module says', input_schema: { type: 'object' } }],
      capabilities: { log: true, clock: true, random: true },
      limits: {},
      ...change,
    }
  }

  pack(manifest: Unbound, code: Uint8Array, told: PackageExtras = {}): SkillPackage {
    return this.sign(payloadOf(manifest, code, told))
  }

  /** Signs any payload. */
  sign(payload: unknown): SkillPackage {
    return { ...seal(SKILL_TYPE, payload, this.signer), payloadType: SKILL_TYPE }
  }
}

const RETURNED = 512
const LOAD8 = 0x2d
type Wanted =
  | { readonly url: string; readonly method?: string; readonly headers?: string; readonly body?: string }
  | { readonly secret: string }

/** A skill that makes one host call and returns the answer (a secret as JSON) or the error. */
export function hostCallSkill(wanted: Wanted): Parts {
  const texts =
    'secret' in wanted
      ? [wanted.secret]
      : [wanted.method ?? 'GET', wanted.url, wanted.headers ?? '', wanted.body ?? '']
  let at = 1_024
  const params = texts.flatMap((words) => {
    const from = at
    at += Buffer.byteLength(words)
    return [...i32(from), ...i32(at - from)]
  })
  const returned = (offset: number): Code => [...i32(RETURNED + offset), ...load()]
  const isSecret = 'secret' in wanted
  const [from, name] = isSecret ? ['secrets', 'get'] : ['http', 'request']
  // A response is status, headers and body. A secret is quoted by the bytes before and after it.
  const outcome: Code = isSecret ? quoted(returned(4), returned(8)) : answer(returned(16), returned(20))
  return {
    imports: [
      {
        from: `countersign:skill/${from}@0.1.0`,
        name,
        params: Array.from({ length: params.length === 0 ? 0 : texts.length * 2 + 1 }, () => I32),
      },
    ],
    data: [dataAt(1_024, texts.join(''))],
    run: [
      ...params,
      ...i32(RETURNED),
      ...call(0),
      ...i32(RETURNED),
      ...load(LOAD8),
      ...when(answer(returned(4), returned(8), 'error'), outcome, I32),
    ],
  }
}

/** Writes a quotation mark before and after it. */
function quoted(at: Code, length: Code): Code {
  const QUOTE = 0x22
  const STORE8 = 0x3a
  return [
    ...at,
    ...i32(-1),
    ...op(ADD),
    ...i32(QUOTE),
    ...store(STORE8),
    ...at,
    ...length,
    ...op(ADD),
    ...i32(QUOTE),
    ...store(STORE8),
    ...answer([...at, ...i32(-1), ...op(ADD)], [...length, ...i32(2), ...op(ADD)]),
  ]
}
