// A mail as bytes that any mail server takes: RFC 5322, MIME multipart/alternative, ASCII throughout. Pure.

import type { Mail } from './content.ts'

export type Envelope = { readonly from: string; readonly to: string }

/** Lines end as the wire wants them. The message's id is ours, so that whoever gets it twice can tell. */
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

/** So that no line of words is longer than 76 characters, the name of the header included. */
const WORD_BYTES = 39

/** RFC 2047: no word cuts a character in two. Encoded always: what is plain today need not be. */
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
