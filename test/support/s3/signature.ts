// AWS Signature Version 4 for S3, as a store checks it. Written from AWS's documents, and without the
// library with which the edge signs:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html

import { createHash, createHmac } from 'node:crypto'

export type SignedRequest = {
  readonly method: string
  /** The path and the query as they were sent. */
  readonly target: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}
export type AccessKey = { readonly id: string; readonly secret: string; readonly region: string }

const sha256 = (text: string | Uint8Array): string => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest()
/** Everything but the unreserved characters of RFC 3986 is encoded; in a path, slashes stay. */
const encoded = (text: string, keep = ''): string =>
  [...Buffer.from(text)]
    .map((byte) => {
      const char = String.fromCharCode(byte)
      return /[A-Za-z0-9\-._~]/.test(char) || keep.includes(char)
        ? char
        : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
    })
    .join('')

/** The error code with which a store answers; undefined if the signature is right. */
export function faultInSignature({ method, target, headers }: SignedRequest, key: AccessKey, now: Date) {
  const header = (name: string): string => String(headers[name] ?? '')
  const [, credential, signedHeaders, signature] =
    /^AWS4-HMAC-SHA256 Credential=([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})$/.exec(
      header('authorization'),
    ) ?? []
  if (credential === undefined || signedHeaders === undefined || signature === undefined)
    return 'AccessDenied'
  const [id, day, region, service, end] = credential.split('/')
  if (id !== key.id) return 'InvalidAccessKeyId'
  const stamp = header('x-amz-date')
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(stamp) ?? []
  if (s === undefined || day !== `${y}${mo}${d}` || service !== 's3' || end !== 'aws4_request')
    return 'AuthorizationHeaderMalformed'
  if (region !== key.region) return 'AuthorizationHeaderMalformed'
  const at = Date.parse(`${y}-${mo}-${d}T${h}:${mi}:${s}Z`)
  if (Math.abs(at - now.getTime()) > 15 * 60_000) return 'RequestTimeTooSkewed'

  const names = signedHeaders.split(';')
  const present = Object.keys(headers).filter((name) => name === 'host' || name.startsWith('x-amz-'))
  if (`${names}` !== `${[...names].sort()}` || present.some((name) => !names.includes(name)))
    return 'AccessDenied' // the signature does not cover a header that matters
  const [path = '', query = ''] = target.split('?')
  const queries = query
    .split('&')
    .filter((one) => one !== '')
    .map((one) => one.split('=').map((part) => encoded(decodeURIComponent(part))))
    .map(([name = '', value = '']) => `${name}=${value}`)
  const canonical = [
    method,
    encoded(decodeURIComponent(path), '/'),
    queries.sort().join('&'),
    ...names.map((name) => `${name}:${header(name).trim().replace(/ +/g, ' ')}`),
    '',
    signedHeaders,
    header('x-amz-content-sha256'),
  ].join('\n')
  const scope = `${day}/${region}/s3/aws4_request`
  const text = ['AWS4-HMAC-SHA256', stamp, scope, sha256(canonical)].join('\n')
  const signing = hmac(hmac(hmac(hmac(`AWS4${key.secret}`, day), region ?? ''), 's3'), 'aws4_request')
  return hmac(signing, text).toString('hex') === signature ? undefined : 'SignatureDoesNotMatch'
}
