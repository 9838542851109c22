// Arithmetic on the curve of Ed25519, and inputs that libraries judge differently (T02): points of
// small and mixed order, non-canonical encodings, an S that is not reduced. It is derived from p, d
// and the order of the base point, shares nothing with the code under test, and is deterministic.

import { createHash } from 'node:crypto'
import { EDGE } from './evidence.ts'

type Point = readonly [x: bigint, y: bigint]

const P = 2n ** 255n - 19n
export const mod = (n: bigint, by = P): bigint => ((n % by) + by) % by
const power = (base: bigint, exponent: bigint): bigint => {
  let [result, square] = [1n, mod(base)]
  for (let left = exponent; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = mod(result * square)
    square = mod(square * square)
  }
  return result
}
const inverse = (n: bigint): bigint => power(n, P - 2n)
const D = mod(-121_665n * inverse(121_666n))

/** One of the two square roots; undefined where there is none. */
function root(n: bigint): bigint | undefined {
  const candidate = power(n, (P + 3n) / 8n)
  return [candidate, mod(candidate * power(2n, (P - 1n) / 4n))].find((one) => mod(one * one) === mod(n))
}
/** The even x for this y; undefined where no point of the curve has it. */
function xFor(y: bigint): bigint | undefined {
  const x = root((y * y - 1n) * inverse(D * y * y + 1n))
  return x === undefined || x % 2n === 0n ? x : mod(-x)
}
export const isOnCurve = ([x, y]: Point): boolean => mod(y * y - x * x) === mod(1n + D * x * x * y * y)

const NEUTRAL: Point = [0n, 1n]
function add([x1, y1]: Point, [x2, y2]: Point): Point {
  const t = D * x1 * x2 * y1 * y2
  const both = inverse((1n + t) * (1n - t))
  return [mod((x1 * y2 + x2 * y1) * (1n - t) * both), mod((y1 * y2 + x1 * x2) * (1n + t) * both)]
}
export function times(n: bigint, point: Point): Point {
  let [sum, double] = [NEUTRAL, point]
  for (let left = n; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) sum = add(sum, double)
    double = add(double, double)
  }
  return sum
}
export const same = ([x1, y1]: Point, [x2, y2]: Point): boolean => x1 === x2 && y1 === y2

const baseY = mod(4n * inverse(5n))
export const BASE: Point = [xFor(baseY) ?? 0n, baseY]
/** The order of the base point. */
export const L = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n

/** The eight points of small order, as the multiples of one that has order 8. */
export const TORSION: readonly Point[] = (() => {
  for (let y = 2n; ; y++) {
    const x = xFor(y)
    const point = x === undefined ? NEUTRAL : times(L, [x, y])
    if (!same(times(4n, point), NEUTRAL)) return [0n, 1n, 2n, 3n, 4n, 5n, 6n, 7n].map((n) => times(n, point))
  }
})()

// ── Encodings ──

const SIGN = 2n ** 255n
const littleEndian = (n: bigint): Buffer => Buffer.from(n.toString(16).padStart(64, '0'), 'hex').reverse()
const number = (bytes: Uint8Array): bigint => BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`)
export const encoded = ([x, y]: Point): Buffer => littleEndian(y + (x % 2n) * SIGN)
/**
 * Non-canonical encodings that a lenient decoder accepts for the same point: y + p if it fits into
 * 255 bits, a sign bit although x is zero.
 */
function misencoded([x, y]: Point): Buffer[] {
  const ys = y + P < SIGN ? [y, y + P] : [y]
  const signs = x === 0n ? [0n, 1n] : [x % 2n]
  const spelled = ys.flatMap((one) => signs.map((sign) => one + sign * SIGN))
  return spelled.filter((one) => one !== y + (x % 2n) * SIGN).map(littleEndian)
}
const sha512 = (...parts: readonly Uint8Array[]): Buffer =>
  createHash('sha512').update(Buffer.concat(parts)).digest()
const key = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')

/**
 * Base64url public keys for which anyone can sign without a secret: each point of small order in
 * each of its encodings.
 */
export const WEAK_KEYS: Readonly<Record<string, string>> = Object.fromEntries(
  TORSION.flatMap((point, n) => [
    [`${n}·T`, key(encoded(point))],
    ...misencoded(point).map((bytes, i) => [`${n}·T, non-canonical encoding ${i + 1}`, key(bytes)]),
  ]),
)
/**
 * Strings that are not canonical public keys: a y of large order encoded as y + p, or a y that no
 * point has.
 */
export const NO_KEYS: Readonly<Record<string, string>> = Object.fromEntries(
  Array.from({ length: 17 }, (_, i) => BigInt(i + 2)).flatMap((y) =>
    xFor(y) === undefined
      ? [[`no point has y = ${y}`, key(littleEndian(y))]]
      : [[`y = ${y}, written as y + p`, key(littleEndian(y + P))]],
  ),
)

// ── Signatures ──

/** The secret scalar of a key, as RFC 8032 §5.1.5 derives it from the seed. */
function scalar(seed: Uint8Array): bigint {
  const half = sha512(seed).subarray(0, 32)
  half[0] = (half[0] ?? 0) & 0xf8
  half[31] = ((half[31] ?? 0) & 0x7f) | 0x40
  return number(half)
}
const secretOf = (jwk: { readonly d?: string }): bigint => scalar(Buffer.from(jwk.d ?? '', 'base64url'))

/** A nonce and an encoding of its point R. */
export type Nonce = { readonly nonce: bigint; readonly R: Uint8Array }
export const BASE_NONCE: Nonce = { nonce: 1n, R: encoded(BASE) }
export const WEAK_NONCES: Readonly<Record<string, Nonce>> = {
  'the neutral element': { nonce: 0n, R: encoded(NEUTRAL) },
  ...Object.fromEntries(
    misencoded(NEUTRAL).map((R, i) => [
      `the neutral element, non-canonical encoding ${i + 1}`,
      { nonce: 0n, R },
    ]),
  ),
}

/**
 * A signature by this key with a chosen R. S·B = R + h·A holds, so a verifier that accepts any
 * encoding and order of R accepts it.
 */
export function chosenSignature(
  message: Uint8Array,
  { nonce, R }: Nonce,
  by: { readonly x: string; readonly d?: string } = jwkOfEdge(),
): Buffer {
  const h = number(sha512(R, Buffer.from(by.x, 'base64url'), message))
  return Buffer.concat([R, littleEndian(mod(nonce + h * secretOf(by), L))])
}
const jwkOfEdge = () => ({ ...EDGE.key.export({ format: 'jwk' }), x: EDGE.x })

/**
 * The same signature with S + n·L instead of S, which a verifier that reduces S accepts. Undefined
 * if it exceeds 32 bytes.
 */
export function malleable(signature: Uint8Array, times: bigint): Buffer | undefined {
  const S = number(signature.subarray(32)) + times * L
  return S < 2n ** 256n ? Buffer.concat([signature.subarray(0, 32), littleEndian(S)]) : undefined
}

// ── Vectors ──

/** One encoding of the point n·B + torsion·T. */
type EncodedPoint = {
  readonly name: string
  readonly n: bigint
  readonly torsion: number
  readonly bytes: Buffer
  readonly sound: boolean
}

function encodings(name: string, n: bigint, multiples: readonly number[]): EncodedPoint[] {
  const prime = times(n, BASE)
  return multiples.flatMap((torsion) => {
    const point = add(prime, TORSION[torsion] ?? NEUTRAL)
    const wrong = misencoded(point).map((bytes) => ({
      name: `${name} + ${torsion}T, non-canonical`,
      n,
      torsion,
      bytes,
      sound: false,
    }))
    return [{ name: `${name} + ${torsion}T`, n, torsion, bytes: encoded(point), sound: n !== 0n }, ...wrong]
  })
}

export type Vector = {
  readonly name: string
  readonly x: string
  readonly message: string
  readonly signature: string
  /** Whether S·B = R + h·A, ignoring the encodings. */
  readonly equation: boolean
  /** Whether our rule accepts it. */
  readonly holds: boolean
}

const ALL = [0, 1, 2, 3, 4, 5, 6, 7]
/**
 * The message determines h, and h whether the parts of small order cancel out. The search tries
 * messages until it has one of each kind.
 */
const MESSAGES = 48

function* pair(A: EncodedPoint, R: EncodedPoint): Generator<Vector> {
  const found = new Set<boolean>()
  for (let i = 0; i < MESSAGES && found.size < 2; i++) {
    const message = Buffer.from(`message ${i}`)
    const h = mod(number(sha512(R.bytes, A.bytes, message)), L)
    const equation = (BigInt(R.torsion) + h * BigInt(A.torsion)) % 8n === 0n
    if (found.has(equation)) continue
    found.add(equation)
    const S = mod(R.n + h * A.n, L)
    const of = { x: key(A.bytes), message: message.toString('hex') }
    const signature = (s: bigint): string => Buffer.concat([R.bytes, littleEndian(s)]).toString('hex')
    const name = `A = ${A.name}, R = ${R.name}, ${equation ? 'exact' : 'but for small order'}`
    yield { ...of, name, signature: signature(S), equation, holds: equation && A.sound && R.sound }
    if (A.torsion + R.torsion === 0)
      yield { ...of, name: `${name}, S + L`, signature: signature(S + L), equation, holds: false }
  }
}

/** Pairs of a key and an R that libraries judge differently, each with a matching S. */
export function vectors(): Vector[] {
  const secret = secretOf(jwkOfEdge())
  const keys = [...encodings('a·B', secret, [0, 1, 4, 6]), ...encodings('0', 0n, ALL)]
  const nonces = [...encodings('r·B', 7n, [0, 1, 4, 6]), ...encodings('0', 0n, ALL)]
  return keys.flatMap((A) => nonces.flatMap((R) => [...pair(A, R)]))
}
