// Stores one file in a bucket of an S3-compatible store. A file is stored at most once under its
// name, and counts as stored only if the store confirms its checksum or returns its bytes. Requests
// are signed with AWS Signature Version 4, go only to addresses that the edge may request (N14), and
// follow no redirect.

import { createHash } from 'node:crypto'
import { AwsV4Signer } from 'aws4fetch'
import { type Failure, failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { ExportTargetSpec } from '../../shared/wire/exports.ts'
import { faultInAddress, type Outside, type StandIns } from '../platform/outbound-fetch.ts'

export type Network = { readonly outside: Outside; readonly standIns: StandIns | undefined }
/** `again`: another attempt may succeed. */
type Attempt = Result<true, { readonly again: boolean; readonly failure: Failure }>
type Stored = { readonly name: string; readonly bytes: Uint8Array<ArrayBuffer> }
type Answer = { readonly status: number; readonly checksum: string | null; readonly body: Buffer }

/** Stores the file, unless the bucket has it already with the same bytes. */
export async function putObject(
  network: Network,
  spec: ExportTargetSpec,
  file: Stored,
): Promise<Result<true>> {
  const fault = faultInAddress(spec.endpoint, network.standIns !== undefined)
  if (fault !== undefined) return err(failure('export_refused', `/endpoint: ${fault}`))
  for (let attempt = 1; ; attempt++) {
    const put = await putOnce(network, spec, file)
    if (put.ok) return put
    if (!put.error.again || attempt >= LIMITS.export_tries) return err(put.error.failure)
    await new Promise((resolve) => setTimeout(resolve, LIMITS.export_pause_ms * 2 ** (attempt - 1)))
  }
}

async function putOnce(network: Network, spec: ExportTargetSpec, file: Stored): Promise<Attempt> {
  const digest = createHash('sha256').update(file.bytes).digest()
  const checksum = digest.toString('base64')
  const answer = await send(network, spec, {
    method: 'PUT',
    name: file.name,
    bytes: file.bytes,
    headers: {
      'content-type': 'application/octet-stream',
      'if-none-match': '*', // an object is never replaced, even if the access key permits it
      'x-amz-checksum-sha256': checksum,
      'x-amz-content-sha256': digest.toString('hex'),
    },
  })
  if (!answer.ok) return answer
  const { status } = answer.value
  if (status === 200 && answer.value.checksum === checksum) return ok(true)
  return status === 200 || status === 412 ? hasBytes(network, spec, file) : refused(answer.value)
}

/** Reads the object: another attempt or another export may have stored it before. */
async function hasBytes(network: Network, spec: ExportTargetSpec, { name, bytes }: Stored): Promise<Attempt> {
  const headers = { 'x-amz-content-sha256': createHash('sha256').digest('hex') }
  const answer = await send(network, spec, { method: 'GET', name, headers, most: bytes.byteLength + 1 })
  if (!answer.ok) return answer
  if (answer.value.status !== 200) return refused(answer.value)
  return answer.value.body.equals(bytes)
    ? ok(true)
    : err({ again: false, failure: failure('export_mismatch', `\`${name}\` has other bytes in the bucket`) })
}

type Request = {
  readonly method: 'PUT' | 'GET'
  readonly name: string
  readonly headers: Record<string, string>
  readonly bytes?: Uint8Array<ArrayBuffer>
  /** The most bytes of the body that are read. */
  readonly most?: number
}

async function send(
  { outside }: Network,
  spec: ExportTargetSpec,
  { method, name, headers, bytes, most = LIMITS.export_answer_bytes }: Request,
): Promise<Result<Answer, { again: boolean; failure: Failure }>> {
  const { endpoint, bucket, prefix, region } = spec
  const signed = await new AwsV4Signer({
    method,
    url: `${endpoint.replace(/\/+$/, '')}/${bucket}/${prefix}${name}`,
    headers,
    service: 's3',
    region,
    accessKeyId: spec.access_key_id,
    secretAccessKey: spec.secret_access_key,
  }).sign()
  const signal = AbortSignal.timeout(LIMITS.export_ms)
  try {
    const answer = await outside.fetch(signed.url.href, {
      method,
      redirect: 'manual',
      headers: signed.headers,
      signal,
      ...(bytes === undefined ? {} : { body: bytes }),
    })
    const body = await beginning(answer, most)
    return ok({ status: answer.status, checksum: answer.headers.get('x-amz-checksum-sha256'), body })
  } catch {
    // The runtime's error could reveal what a name resolves to.
    const why = signal.aborted ? `gave no answer within ${LIMITS.export_ms} ms` : 'could not be reached'
    return err({ again: true, failure: failure('export_unavailable', `the store ${why}`) })
  }
}

async function beginning(answer: Response, most: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of (answer.body ?? []) as AsyncIterable<Uint8Array>) {
    chunks.push(chunk)
    size += chunk.byteLength
    if (size >= most) break // which cancels the rest
  }
  return Buffer.concat(chunks).subarray(0, most)
}

/** The usual cause of some of the store's own codes. */
const CAUSES: Readonly<Record<string, string>> = {
  SignatureDoesNotMatch: 'the secret of the access key is wrong',
  InvalidAccessKeyId: 'the store does not know the access key',
  AccessDenied: 'the access key may not store and read objects there (`s3:PutObject`, `s3:GetObject`)',
  NoSuchBucket: 'the bucket does not exist',
  AuthorizationHeaderMalformed: 'the region is not that of the bucket',
  RequestTimeTooSkewed: 'the clocks of the edge and of the store differ by more than 15 minutes',
  NotImplemented: 'the store has no conditional writes (`If-None-Match`)',
}

/** The answer's body may name the access key or parts of the signature, so only its code is shown. */
function refused({ status, body }: Answer): Attempt {
  const code = /<Code>([A-Za-z]{1,64})<\/Code>/.exec(body.toString())?.[1] ?? ''
  const isBusy = status === 409 || status === 429 || (status >= 500 && status !== 501)
  const cause =
    status >= 300 && status < 400
      ? 'it redirects elsewhere; name the endpoint of the bucket’s own region'
      : CAUSES[code]
  const detail = `the store answered ${status}${code === '' ? '' : ` ${code}`}${cause === undefined ? '' : `: ${cause}`}`
  return err({ again: isBusy, failure: failure(isBusy ? 'export_unavailable' : 'export_refused', detail) })
}
