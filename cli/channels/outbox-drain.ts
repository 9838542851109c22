// `countersign channels drain`: delivers the mails of an outbox to the operator's own mail server,
// as files or through sendmail. A mail is reported as delivered only once it is on disk or
// accepted. If one mail is refused, it stays in the outbox and the others go on; if none can be
// delivered, the command stops.

import { spawnSync } from 'node:child_process'
import {
  accessSync,
  closeSync,
  constants,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Collected } from '../../shared/wire/channels.ts'
import type { Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { inline } from '../shell/terminal-text.ts'

/**
 * Returns why this mail was refused, or `null`. An error means that no other mail could be
 * delivered either.
 */
type Deliver = (mail: Collected) => Result<string | null, Trouble>

/** A sendmail that takes longer is treated as hung. */
const SENDMAIL_MS = 60_000
/** The environment of sendmail, which must not see our key. */
const SENDMAIL_ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' }

/**
 * Writes each mail to a temporary file, syncs and renames it, so that a crash leaves no partial and
 * no duplicate `.eml`. Mode 0600, because mails contain approval links.
 */
const intoFolder =
  (dir: string): Deliver =>
  ({ id, message }) => {
    const path = join(dir, `${id}.eml`)
    const unfinished = join(dir, `.${id}.unfinished`)
    try {
      rmSync(unfinished, { force: true })
      syncFile(unfinished, 'wx', (file) => writeSync(file, message))
      renameSync(unfinished, path)
      syncFile(dir, 'r')
      return ok(null)
    } catch (thrown) {
      return err(trouble('unwritable', `\`${path}\` can’t be written: ${reason(thrown)}`))
    }
  }

function syncFile(path: string, flags: 'wx' | 'r', write: (file: number) => void = () => undefined): void {
  const file = openSync(path, flags, 0o600)
  try {
    write(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * `-t` takes the recipient from the mail, `-i` ignores lines with a single dot. Line ends become
 * `\n`, as sendmail expects.
 */
const intoSendmail =
  (path: string): Deliver =>
  ({ message }) => {
    const input = message.replaceAll('\r\n', '\n')
    const ran = spawnSync(path, ['-t', '-i'], {
      input,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: SENDMAIL_ENVIRONMENT,
      timeout: SENDMAIL_MS,
    })
    // Look at the status first: a refusal before sendmail has read the mail also causes an EPIPE
    // error.
    if (ran.status) return ok(`\`${path}\` exited with ${ran.status}`)
    if (ran.error !== undefined)
      return err(trouble('sendmail_failed', `\`${path}\` can’t be used: ${reason(ran.error)}`))
    return ok(ran.status === 0 ? null : `\`${path}\` was ended by ${ran.signal}`)
  }

function faultInFolder(dir: string): Trouble | undefined {
  try {
    if (!statSync(dir).isDirectory()) return trouble('unwritable', `\`${dir}\` is not a folder`)
    accessSync(dir, constants.W_OK | constants.X_OK)
    return undefined
  } catch (thrown) {
    return trouble('unwritable', `\`${dir}\` can’t be written: ${reason(thrown)}`)
  }
}

export const drain = command({
  words: ['channels', 'drain'],
  args: { NAME: 'the channel’s name' },
  flags: {
    dir: { value: 'DIR', what: 'write each mail into this folder, as one .eml file' },
    sendmail: {
      value: 'PATH',
      what: 'pass each mail to this program on standard input; it is run as PATH -t -i',
    },
  },
  does: 'Deliver the mails of an outbox channel; run it every minute. A crash in between can deliver a mail twice',
  key: 'operator',
  exits:
    '0 the outbox is empty; 1 refused, or some mails could not be delivered and stay in the outbox: `channels deliveries` says why',
  examples: ['countersign channels drain by-mail --sendmail /usr/sbin/sendmail'],
  async run({ args: { NAME: name }, flags: { dir, sendmail }, api }) {
    if ((dir === undefined) === (sendmail === undefined))
      return err(usage('give either `--dir` or `--sendmail`'))
    const deliver = dir === undefined ? intoSendmail(sendmail ?? '') : intoFolder(dir)
    const fault = dir === undefined ? undefined : faultInFolder(dir)
    if (fault !== undefined) return err(fault)
    const [delivered, failed]: [string[], { id: string; why: string }[]] = [[], []]
    for (let report: DeliveryReport = { done: [], failed: [] }; ; ) {
      const waiting = await api('collectMessages', { params: { name }, body: report })
      if (!waiting.ok) return waiting
      // The edge lists mails that were already tried last: if there are no others, every mail has
      // been tried.
      const fresh = waiting.value.items.filter(
        ({ id }) => !delivered.includes(id) && failed.every((one) => one.id !== id),
      )
      if (fresh.length === 0)
        return ok({
          ok: failed.length === 0,
          json: { delivered, failed },
          text: summary(delivered.length, failed),
        })
      report = { done: [], failed: [] }
      for (const mail of fresh) {
        // The id becomes a file name and comes from the edge, so check it.
        const taken = /^msg_[0-9a-f]{32}$/.test(mail.id)
          ? deliver(mail)
          : err(
              trouble('unexpected_answer', `the edge sent a mail with the invalid id \`${inline(mail.id)}\``),
            )
        if (!taken.ok) {
          const reported = await api('collectMessages', { params: { name }, body: report })
          return reported.ok ? taken : reported
        }
        if (taken.value === null) report.done.push(mail.id)
        else report.failed.push({ id: mail.id, why: taken.value.slice(0, LIMITS.delivery_why_chars) })
      }
      delivered.push(...report.done)
      failed.push(...report.failed)
    }
  },
})

type DeliveryReport = { done: string[]; failed: { id: string; why: string }[] }

const summary = (delivered: number, failed: DeliveryReport['failed']): string =>
  [
    `${delivered} delivered`,
    ...(failed.length === 0 ? [] : [`${failed.length} not delivered, still in the outbox:`]),
    ...failed.map(({ id, why }) => `  ${id}: ${inline(why)}`),
  ]
    .join('\n')
    .concat('\n')
