// Handmade skills that use their storage or channels as their arguments say: an operation letter, a
// key or channel of eight bytes, and a value, at fixed positions of the canonical arguments:
// `{"do":"s","key":"cache/01","value":"…"}`.

import { answer, component, type Parts, text } from './skill.ts'
import * as w from './wasm.ts'

const [I, KV] = [w.I32, 'countersign:skill/kv@0.1.0']
/** Host functions, called by their index in these lists. */
const STORAGE = [
  { from: KV, name: 'get', params: [I, I, I] },
  { from: KV, name: 'set', params: [I, I, I, I, I] },
  { from: KV, name: 'delete', params: [I, I, I] },
  { from: KV, name: 'keys', params: [I, I, I] },
] as const
const [GET, SET, DELETE, KEYS] = [0, 1, 2, 3] as const
const CHANNELS = [{ from: 'countersign:skill/channel@0.1.0', name: 'post', params: [I, I, I, I, I] }] as const
const HTTP = {
  from: 'countersign:skill/http@0.1.0',
  name: 'request',
  params: [I, I, I, I, I, I, I, I, I],
} as const
const [POST, REQUEST] = [0, 1] as const
export const WAITS_FOR = 'https://hold.example.test/hold'

/** Letters of the operations. */
export const DOES = {
  get: 'g',
  set: 's',
  setLarge: 'l',
  setTooLarge: 'x',
  delete: 'd',
  keys: 'k',
  post: 'p',
  postSix: 'q',
  postAndWait: 'w',
} as const
export type StorageOperation = keyof typeof DOES
type Deeds = Readonly<Partial<Record<StorageOperation, w.Code>>>
export const LARGE = 256 * 1_024

/** Parameters of `run`, then its locals. */
const [AT, LENGTH, LIST, COUNT, OUT, N] = [2, 3, 4, 5, 6, 7] as const
/** Addresses of host answers, of the text `nulltrue`, of allocations, and of written lists. */
const [ANSWER, CONSTANTS, METHOD_AT, PAGE] = [64, 1_024, 1_032, 1_500_000] as const
const [ADD, SUB, MUL, EQ, GE_U, BYTE_LOAD, BYTE_STORE, MEMORY_COPY] = [
  0x6a, 0x6b, 0x6c, 0x46, 0x4f, 0x2d, 0x3a, 10,
] as const

const add = (a: w.Code, b: w.Code): w.Code => [...a, ...b, ...w.op(ADD)]
const answered = (offset: number): w.Code => [...w.i32(ANSWER), ...w.load(0x28, offset)]
const flag = (offset: number): w.Code => [...w.i32(ANSWER), ...w.load(BYTE_LOAD, offset)]

const KEY: w.Code = [...add(w.get(AT), w.i32(17)), ...w.i32(8)]
const inside = (from: number, around: number): w.Code => [
  ...add(w.get(AT), w.i32(from)),
  ...w.get(LENGTH),
  ...w.i32(from + around),
  ...w.op(SUB),
]
/** The value with its quotes, which is a JSON result. */
const VALUE = inside(35, 1)
const WORDS = inside(36, 2)

const returned = (at: w.Code, length: w.Code): w.Code => [...answer(at, length), w.RETURN]
const unlessError: w.Code = [...flag(0), ...w.when([...answer(answered(4), answered(8), 'error'), w.RETURN])]
const TRUE = returned(w.i32(CONSTANTS + 4), w.i32(4))
const returnTrue = (call: w.Code): w.Code => [...call, ...unlessError, ...TRUE]

const write = (char: string): w.Code => [
  ...w.get(OUT),
  ...w.i32(char.charCodeAt(0)),
  ...w.store(BYTE_STORE),
  ...add(w.get(OUT), w.i32(1)),
  ...w.set(OUT),
]
const item = (offset: number): w.Code => [
  ...add(w.get(LIST), [...w.get(N), ...w.i32(8), ...w.op(MUL)]),
  ...w.load(0x28, offset),
]
const next: w.Code = [...add(w.get(N), w.i32(1)), ...w.set(N)]
/** Writes the answered list as `["a","b"]`. */
const listed: w.Code = [
  ...answered(4),
  ...w.set(LIST),
  ...answered(8),
  ...w.set(COUNT),
  ...w.i32(PAGE),
  ...w.set(OUT),
  ...write('['),
  ...w.block(
    w.loop([
      ...w.get(N),
      ...w.get(COUNT),
      ...w.op(GE_U),
      ...w.brIf(1),
      ...w.get(N),
      ...w.when(write(',')),
      ...write('"'),
      ...w.get(OUT),
      ...item(0),
      ...item(4),
      ...w.bulk(MEMORY_COPY, 0, 0),
      ...add(w.get(OUT), item(4)),
      ...w.set(OUT),
      ...write('"'),
      ...next,
      ...w.br(0),
    ]),
  ),
  ...write(']'),
  ...returned(w.i32(PAGE), [...w.get(OUT), ...w.i32(PAGE), ...w.op(SUB)]),
]

const post: w.Code = [...KEY, ...WORDS, ...w.i32(ANSWER), ...w.call(POST)]
/** No headers and no body. */
const request: w.Code = [
  ...[METHOD_AT, 3, METHOD_AT + 3, WAITS_FOR.length, 0, 0, 0, 0].flatMap(w.i32),
  ...w.i32(ANSWER),
  ...w.call(REQUEST),
]
const KEEPING: Deeds = {
  get: [
    ...KEY,
    ...w.i32(ANSWER),
    ...w.call(GET),
    ...unlessError,
    ...flag(4),
    ...w.when(returned(answered(8), answered(12))),
    ...returned(w.i32(CONSTANTS), w.i32(4)),
  ],
  set: returnTrue([...KEY, ...VALUE, ...w.i32(ANSWER), ...w.call(SET)]),
  setLarge: returnTrue([...KEY, ...w.i32(0), ...w.i32(LARGE), ...w.i32(ANSWER), ...w.call(SET)]),
  setTooLarge: returnTrue([...KEY, ...w.i32(0), ...w.i32(LARGE + 1), ...w.i32(ANSWER), ...w.call(SET)]),
  delete: returnTrue([...KEY, ...w.i32(ANSWER), ...w.call(DELETE)]),
  keys: [...WORDS, ...w.i32(ANSWER), ...w.call(KEYS), ...unlessError, ...listed],
}
const POSTING: Deeds = {
  post: returnTrue(post),
  postSix: [
    ...w.loop([
      ...post,
      ...unlessError,
      ...next,
      ...w.get(N),
      ...w.i32(6),
      ...w.op(EQ),
      ...w.when(TRUE),
      ...w.br(0),
    ]),
    w.UNREACHABLE,
  ],
}

export const argumentsOf = (does: StorageOperation, key: string, value = ''): Record<string, unknown> => {
  if (Buffer.byteLength(key) !== 8) throw new Error('a key or channel of eight bytes')
  return { do: DOES[does], key, value }
}

/** Each skill imports only its own capability. */
export const storageSkill = (): Promise<Uint8Array> => doing(STORAGE, KEEPING)
export const postingSkill = (): Promise<Uint8Array> => doing(CHANNELS, POSTING)
/** A skill that posts and then waits for a host's answer. */
export const waitingPostingSkill = (): Promise<Uint8Array> =>
  doing([...CHANNELS, HTTP], { postAndWait: returnTrue([...post, ...request]) })

const doing = (imports: NonNullable<Parts['imports']>, deeds: Deeds): Promise<Uint8Array> =>
  component({
    imports,
    locals: [I, I, I, I],
    ...text(`nulltrueGET${WAITS_FOR}`),
    run: [
      ...Object.entries(deeds).flatMap(([does, deed]) => [
        ...w.get(AT),
        ...w.load(BYTE_LOAD, 7),
        ...w.i32(DOES[does as StorageOperation].charCodeAt(0)), // the table's own names
        ...w.op(EQ),
        ...w.when(deed),
      ]),
      w.UNREACHABLE,
    ],
  })
