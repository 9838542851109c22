// Owns the certificates of one call whose proxy ends TLS: a certificate authority that exists for
// this call and that only its sandbox trusts, and its certificates for hosts with credentials. Keys
// never leave the worker's memory. We encode X.509 (RFC 5280) here; Node signs it.

import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIP } from 'node:net'

const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  oid: 0x06,
  text: 0x0c,
  sequence: 0x30,
  set: 0x31,
  time: 0x17,
} as const
const OID = {
  ecdsaWithSha256: '2a8648ce3d040302',
  commonName: '550403',
  subjectKey: '551d0e',
  keyUsage: '551d0f',
  alternativeName: '551d11',
  basicConstraints: '551d13',
  authorityKey: '551d23',
  extendedKeyUsage: '551d25',
  serverAuth: '2b06010505070301',
} as const
/**
 * keyCertSign and digitalSignature as bit strings, whose first byte counts the unused bits at the
 * end.
 */
const USAGE = { authority: Buffer.from([2, 0x04]), host: Buffer.from([7, 0x80]) } as const
const HOUR_MS = 3_600_000

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...size]), content])
}
const sequence = (...parts: readonly Uint8Array[]): Buffer => der(TAG.sequence, ...parts)
const oid = (hex: string): Buffer => der(TAG.oid, Buffer.from(hex, 'hex'))
const distinguishedName = (name: string): Buffer =>
  sequence(der(TAG.set, sequence(oid(OID.commonName), der(TAG.text, Buffer.from(name)))))
const time = (ms: number): Buffer => {
  const digits = new Date(ms).toISOString().replace(/\D/g, '').slice(2, 14)
  return der(TAG.time, Buffer.from(`${digits}Z`))
}
const extension = (id: string, critical: boolean, value: Uint8Array): Buffer =>
  sequence(oid(id), ...(critical ? [der(TAG.boolean, Buffer.from([0xff]))] : []), der(TAG.octets, value))

type KeyPair = { readonly publicKey: KeyObject; readonly privateKey: KeyObject }
const newPair = (): KeyPair => generateKeyPairSync('ec', { namedCurve: 'P-256' })
const publicBytes = ({ publicKey }: KeyPair): Buffer => publicKey.export({ type: 'spki', format: 'der' })
const keyId = (pair: KeyPair): Buffer => createHash('sha1').update(publicBytes(pair)).digest()

type Subject = { readonly name: string; readonly pair: KeyPair; readonly extensions: readonly Buffer[] }

/**
 * Valid from an hour ago, because a sandbox's clock may differ, until tomorrow: no call lasts a
 * day.
 */
function certificate(
  { name, pair, extensions }: Subject,
  issuer: { readonly name: string; readonly pair: KeyPair },
): string {
  const algorithm = sequence(oid(OID.ecdsaWithSha256))
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(15)])
  const now = Date.now()
  const body = sequence(
    ...[
      der(0xa0, der(TAG.integer, Buffer.from([2]))),
      der(TAG.integer, serial),
      algorithm,
      distinguishedName(issuer.name),
    ],
    ...[sequence(time(now - HOUR_MS), time(now + 24 * HOUR_MS)), distinguishedName(name), publicBytes(pair)],
    der(
      0xa3,
      sequence(...extensions, extension(OID.authorityKey, false, sequence(der(0x80, keyId(issuer.pair))))),
    ),
  )
  const signature = sign('sha256', body, issuer.pair.privateKey)
  const whole = sequence(body, algorithm, der(TAG.bits, Buffer.from([0]), signature)).toString('base64')
  return `-----BEGIN CERTIFICATE-----\n${whole.replace(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`
}

/** The key and certificate with which the proxy acts as a host towards the sandbox. */
export type HostKey = { readonly key: string; readonly cert: string }

export class CallAuthority {
  /** The certificate that the sandbox trusts. */
  readonly pem: string
  readonly #name = `Countersign, call ${randomBytes(8).toString('hex')}`
  readonly #pair = newPair()

  constructor() {
    const extensions = [
      extension(
        OID.basicConstraints,
        true,
        sequence(der(TAG.boolean, Buffer.from([0xff])), der(TAG.integer, Buffer.from([0]))),
      ),
      extension(OID.keyUsage, true, der(TAG.bits, USAGE.authority)),
      extension(OID.subjectKey, false, der(TAG.octets, keyId(this.#pair))),
    ]
    this.pem = certificate(
      { name: this.#name, pair: this.#pair, extensions },
      { name: this.#name, pair: this.#pair },
    )
  }

  certify(host: string): HostKey {
    const pair = newPair()
    const address =
      isIP(host) === 4 ? der(0x87, Buffer.from(host.split('.').map(Number))) : der(0x82, Buffer.from(host))
    const extensions = [
      extension(OID.basicConstraints, true, sequence()),
      extension(OID.keyUsage, true, der(TAG.bits, USAGE.host)),
      extension(OID.extendedKeyUsage, false, sequence(oid(OID.serverAuth))),
      extension(OID.subjectKey, false, der(TAG.octets, keyId(pair))),
      extension(OID.alternativeName, false, sequence(address)),
    ]
    const cert = certificate(
      { name: 'host of a call', pair, extensions },
      { name: this.#name, pair: this.#pair },
    )
    return { key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert }
  }
}
