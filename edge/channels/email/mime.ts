// A mail in RFC 5322 format, MIME multipart/alternative, all ASCII. Pure.

import type { Mail } from './content.ts'

export type Envelope = { readonly from: string; readonly to: string }

/**
 * Lines end with CRLF. The `Message-ID` is our id, so that a receiver can recognise a repetition.
 */
export function rfc5322({ id, at_ms, subject, text, html }: Mail, { from, to }: Envelope): string {
  const boundary = `=_${id}` // base64 has no `_`, and no line of it begins with `-`
  const part = (type: string, content: string) => [
    `--${boundary}`,
    `Content-Type: ${type}; charset=utf-8`,
    'Content-Transfer-Encoding: base64',
    '',
    ...folded(content),
  ]
  return [
    `Date: ${new Date(at_ms).toUTCString().replace('GMT', '+0000')}`,
    `Message-ID: <${id}@${from.slice(from.indexOf('@') + 1)}>`,
    `From: Countersign <${from}>`,
    `To: ${to}`,
    ...words(subject),
    'Auto-Submitted: auto-generated',
    'MIME-Version: 1.0',
    'Content-Type: multipart/alternative;',
    ` boundary="${boundary}"`,
    '',
    ...part('text/plain', text),
    ...part('text/html', html),
    `--${boundary}--`,
    '',
  ].join('\r\n')
}

const folded = (content: string): string[] =>
  Buffer.from(content)
    .toString('base64')
    .match(/.{1,76}/g) ?? []

/** Keeps each line of an encoded header within 76 characters, the header's name included. */
const WORD_BYTES = 39

/**
 * RFC 2047 encoded words, which never split a character. Always encoded, so that there is only one
 * path.
 */
function words(subject: string): string[] {
  const chunks: string[] = ['']
  for (const char of subject) {
    const last = chunks.at(-1) ?? ''
    if (Buffer.byteLength(last + char) > WORD_BYTES) chunks.push(char)
    else chunks[chunks.length - 1] = last + char
  }
  return chunks.map(
    (chunk, i) => `${i === 0 ? 'Subject:' : ''} =?utf-8?B?${Buffer.from(chunk).toString('base64')}?=`,
  )
}
