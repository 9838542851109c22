// The results of shared/ for the inputs of all tests in this folder, as a list of lines. It runs in
// Node and in workerd, whose lists must be equal, so it uses no clock and only seeded random
// values.

import { canonical, digestOf, parseJson } from '../../shared/bytes/json.ts'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { signCheckpoint, verifyCheckpoint } from '../../shared/evidence/checkpoint.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import { kidOf, seal, signedByExactly } from '../../shared/evidence/dsse.ts'
import { isSignedBy, PublicKey } from '../../shared/evidence/ed25519.ts'
import { readSignatureInput, signatureHolds } from '../../shared/evidence/http-signature.ts'
import { entryHash, GENESIS } from '../../shared/evidence/journal.ts'
import {
  append,
  consistency,
  inclusion,
  leafHash,
  root,
  verifyConsistency,
  verifyInclusion,
} from '../../shared/evidence/merkle.ts'
import { base32, callId, keyHash, PATTERNS, parseKey, splitId } from '../../shared/ids.ts'
import { BASE_NONCE, chosenSignature, malleable, NO_KEYS, vectors, WEAK_KEYS, WEAK_NONCES } from './curve.ts'
import {
  collude,
  deniedBundle,
  EDGE,
  executedBundle,
  KEYS,
  reexecuted,
  regrant,
  STRANGER,
  WORKER,
} from './evidence.ts'
import { CANONICAL_NUMBERS, CANONICAL_TEXTS, JSON_CASES, jsonBytes } from './json-cases.ts'
import { randomJson, seeded, spelled } from './random-json.ts'
import { changed, others, paths, reached } from './tamper.ts'

type Answer = readonly [question: string, answer: unknown]

function* json(): Generator<Answer> {
  for (const item of JSON_CASES) {
    const read = parseJson(jsonBytes(item))
    yield [`json: ${item.name}`, read.ok ? digestOf(read.value) : read.error]
  }
  for (const [bits] of CANONICAL_NUMBERS)
    yield [`double ${bits}`, canonical(Buffer.from(bits, 'hex').readDoubleBE())]
  for (const [name, value] of CANONICAL_TEXTS) yield [`canonical: ${name}`, canonical(value)]
  const random = seeded(20_261_118)
  for (let round = 0; round < 500; round++) {
    const text = spelled(randomJson(random), random)
    const read = parseJson(new TextEncoder().encode(text))
    yield [`random ${round}`, [text, read.ok ? digestOf(read.value) : read.error]]
  }
}

function* ids(): Generator<Answer> {
  for (let length = 0; length <= 32; length++)
    yield [`base 32 of ${length}`, base32(new Uint8Array(length).fill(0xa5))]
  const key = `cs_agent_default_${'0'.repeat(26)}_${'Z'.repeat(52)}`
  yield ['key', [parseKey(key), parseKey(`${key} `), keyHash(key)]]
  const run = `run_${'7'.repeat(26)}`
  yield ['call', [callId(run, 3), splitId(callId(run, 3))]]
  for (const name of ['text_stats', 'tеxt', 'a\n', '__proto__', 'ａ'])
    yield [`name ${name}`, PATTERNS.tool.test(name)]
}

function* signatures(): Generator<Answer> {
  const type = 'application/vnd.countersign.test+json'
  const envelope = seal(type, { é: [1, 'x'] }, EDGE)
  const keys = new Map([[EDGE.kid, EDGE.x]])
  const message = Buffer.concat([
    Buffer.from(`DSSEv1 ${type.length} ${type} 14 `),
    Buffer.from('{"é":[1,"x"]}'),
  ])
  const holds = (sig: Uint8Array): boolean => {
    const changed: Envelope = {
      ...envelope,
      signatures: [{ keyid: EDGE.kid, sig: Buffer.from(sig).toString('base64') }],
    }
    return signedByExactly(changed, type, keys)
  }
  yield [
    'sealed',
    [
      envelope,
      kidOf(EDGE.x),
      signedByExactly(envelope, type, keys),
      signedByExactly(envelope, 'other', keys),
    ],
  ]
  for (const [name, x] of Object.entries({ ...WEAK_KEYS, ...NO_KEYS }))
    yield [`key of ${name}`, PublicKey.safeParse(x).success]
  const nonces = { ...WEAK_NONCES, 'the base point': BASE_NONCE }
  for (const [name, choice] of Object.entries(nonces))
    yield [`R as ${name}`, holds(chosenSignature(message, choice))]
  for (const [i, { name, x, message, signature }] of vectors().entries())
    yield [`vector ${i}, ${name}`, isSignedBy(x, Buffer.from(message, 'hex'), Buffer.from(signature, 'hex'))]
  const signature = Buffer.from(envelope.signatures[0]?.sig ?? '', 'base64')
  for (const times of [1n, 2n, 14n])
    yield [`S + ${times}·L`, holds(malleable(signature, times) ?? Buffer.alloc(64))]
  for (const [name, sig] of Object.entries({
    zeros: Buffer.alloc(64),
    ones: Buffer.alloc(64, 255),
    short: signature.subarray(1),
  }))
    yield [`signature of ${name}`, holds(sig)]
}

/** Signed by Node in advance; both runtimes must read it the same way. */
const SIGNED = {
  input:
    'w=("@method" "@authority" "@path" "content-digest");created=1763000000;nonce="J1OrmGHYqbVaqlYPZBoFFCR6";keyid="default/wrk_01KA5XJ3M0000000000000000A";alg="ed25519";tag="countersign-worker"',
  digest: 'sha-256=:RBNvo1WzZ4oRRq0W9+hknpT7T8If536DEMBg9hyq/4o=:',
  signature: 'w=:8nVf0yDps34ONKhjDmL+u6mG3AG5kQBKpi6nj7/wwm6pQVXuvmLXMgPzFkU7YtR7yjfaLNalE88dj/X2KpGnBQ==:',
}

function* requests(): Generator<Answer> {
  const request = {
    method: 'POST',
    authority: 'Edge.example',
    path: '/v1/worker/claims',
    body: Buffer.from('{}'),
  }
  for (const [name, header] of Object.entries({
    right: SIGNED.input,
    longer: `${SIGNED.input};x=1`,
    none: undefined,
  })) {
    const input = readSignatureInput(header)
    yield [`signature input: ${name}`, input]
    if (input === undefined) continue
    for (const path of ['/v1/worker/claims', '/v1/worker/claim'])
      yield [`signed ${path}`, signatureHolds({ ...request, path }, input, SIGNED, WORKER.x)]
  }
}

function* bundles(): Generator<Answer> {
  const executed = executedBundle()
  for (const [kind, bundle] of Object.entries({ executed, denied: deniedBundle() })) {
    yield [`${kind} bundle`, [digestOf(bundle), verifyBundle(bundle, KEYS)]]
    for (const path of paths(bundle)) {
      for (const to of others(reached(bundle, path))) {
        const parsed = Bundle.safeParse(changed(bundle, path, to))
        yield [
          `${kind} with ${path.join('.')} = ${String(to)}`,
          parsed.success ? verifyBundle(parsed.data, KEYS) : 'not a bundle',
        ]
      }
    }
  }
  yield [
    'colluding',
    verifyBundle(collude(executed, reexecuted(executed, { outcome: { kind: 'timeout' } })), KEYS).checks,
  ]
  yield ['another grant', verifyBundle(regrant(executed, { fence: 2 }), KEYS).checks]
  yield [
    'unknown keys',
    verifyBundle(executed, { ...KEYS, keys: KEYS.keys.map((key) => ({ ...key, x: STRANGER.x })) }).checks,
  ]
}

function* log(): Generator<Answer> {
  const nodes = new Map<string, string>()
  const read = (level: number, index: number): string => nodes.get(`${level}/${index}`) ?? ''
  for (let size = 0; size < 40; size++) {
    for (const node of append(size, leafHash(`entry ${size}`), read))
      nodes.set(`${node.level}/${node.index}`, node.hash)
    const [m, n] = [size >> 1, size + 1]
    const [rootM, rootN] = [root(m, read), root(n, read)]
    const path = inclusion(m, n, read)
    const proof = consistency(m, n, read)
    yield [
      `tree of ${n}`,
      [
        rootN,
        path,
        proof,
        verifyInclusion({ leaf: read(0, m), index: m, size: n, root: rootN, proof: path }),
        verifyConsistency({ m, rootM, n, rootN, proof }),
      ],
    ]
  }
  const note = signCheckpoint({ origin: 'countersign.example/default', size: 40, root: root(40, read) }, EDGE)
  for (const text of [note, note.replace('40', '41'), note.slice(1)])
    yield ['checkpoint', [text, verifyCheckpoint(text, 'countersign.example/default', EDGE.x)]]
  yield [
    'journal',
    entryHash({
      seq: 1,
      at_ms: 1_763_000_000_000,
      kind: 'é',
      call: null,
      body: { b: 1, a: [null] },
      prev: GENESIS.hash,
    }),
  ]
}

/** Every answer as text. */
export const answers = (): string[] =>
  [...json(), ...ids(), ...signatures(), ...requests(), ...bundles(), ...log()].map(
    ([question, answer]) => `${question}: ${JSON.stringify(answer)}`,
  )
