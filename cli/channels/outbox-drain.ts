// Mails of an outbox, carried to a mail server of one's own: written as files, or handed to a sendmail. Each is told to be done once it
// is on disk or taken, and not before. A mail that is not taken stays in the outbox, and the others go on; what can take none stops it.
// Beside the compilers of skills, the one place where the command line starts a program.

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

/** Why this mail was not taken, or `null`. An error: no other would be. */
type Deliver = (mail: Collected) => Result<string | null, Trouble>

/** A mail server that takes longer than this hangs. */
const SENDMAIL_MS = 60_000
/** What a sendmail needs; our key, which is in our own environment, it does not. */
const SURROUNDINGS = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' }

/**
 * Whoever looks into the folder finds whole mails alone, each once, whatever dies in between. They hold links: nobody else may read
 * them.
 */
const intoFolder =
  (dir: string): Deliver =>
  ({ id, message }) => {
    const path = join(dir, `${id}.eml`)
    const unfinished = join(dir, `.${id}.unfinished`)
    try {
      rmSync(unfinished, { force: true })
      synced(unfinished, 'wx', (file) => writeSync(file, message))
      renameSync(unfinished, path)
      synced(dir, 'r')
      return ok(null)
    } catch (thrown) {
      return err(trouble('unwritable', `\`${path}\` can't be written: ${reason(thrown)}`))
    }
  }

function synced(path: string, flags: 'wx' | 'r', write: (file: number) => void = () => undefined): void {
  const file = openSync(path, flags, 0o600)
  try {
    write(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** It reads the recipient off the mail; a line with a dot alone ends nothing. Lines end as programs on this side have them. */
const intoSendmail =
  (path: string): Deliver =>
  ({ message }) => {
    const input = message.replaceAll('\r\n', '\n')
    const ran = spawnSync(path, ['-t', '-i'], {
      input,
      stdio: ['pipe', 'ignore', 'ignore'],
      env: SURROUNDINGS,
      timeout: SENDMAIL_MS,
    })
    // One that says no may do so before it has read the mail, which is an error of its own.
    if (ran.status) return ok(`\`${path}\` ended with ${ran.status}`)
    if (ran.error !== undefined)
      return err(trouble('sendmail_failed', `\`${path}\` can't be used: ${reason(ran.error)}`))
    return ok(ran.status === 0 ? null : `\`${path}\` ended by ${ran.signal}`)
  }

function faultInFolder(dir: string): Trouble | undefined {
  try {
    if (!statSync(dir).isDirectory()) return trouble('unwritable', `\`${dir}\` is not a folder`)
    accessSync(dir, constants.W_OK | constants.X_OK)
    return undefined
  } catch (thrown) {
    return trouble('unwritable', `\`${dir}\` can't be written: ${reason(thrown)}`)
  }
}

export const drain = command({
  words: ['channels', 'drain'],
  args: { NAME: 'the channel’s name' },
  flags: {
    dir: { value: 'DIR', what: 'write each mail into this folder, as a file of its own that ends in .eml' },
    sendmail: { value: 'PATH', what: 'hand each mail to this program, as sendmail -t -i takes it' },
  },
  does: 'Deliver the mails that wait in an outbox; run it every minute. A mail is delivered once, or twice if it dies in between',
  key: 'operator',
  exits:
    '0 none waits any more; 1 refused, or some could not be delivered and wait still: `channels deliveries` says why',
  examples: ['countersign channels drain by-mail --sendmail /usr/sbin/sendmail'],
  async run({ args: { NAME: name }, flags: { dir, sendmail }, api }) {
    if ((dir === undefined) === (sendmail === undefined))
      return err(usage('give `--dir` or `--sendmail`, one of the two'))
    const deliver = dir === undefined ? intoSendmail(sendmail ?? '') : intoFolder(dir)
    const fault = dir === undefined ? undefined : faultInFolder(dir)
    if (fault !== undefined) return err(fault)
    const [delivered, failed]: [string[], { id: string; why: string }[]] = [[], []]
    for (let told: Told = { done: [], failed: [] }; ; ) {
      const waiting = await api('collectMessages', { params: { name }, body: told })
      if (!waiting.ok) return waiting
      // What was tried before waits behind all others: where there is nothing else, each has had its try.
      const fresh = waiting.value.items.filter(
        ({ id }) => !delivered.includes(id) && failed.every((one) => one.id !== id),
      )
      if (fresh.length === 0)
        return ok({
          ok: failed.length === 0,
          json: { delivered, failed },
          text: summary(delivered.length, failed),
        })
      told = { done: [], failed: [] }
      for (const mail of fresh) {
        // It names a file, and is another's word.
        const taken = /^msg_[0-9a-f]{32}$/.test(mail.id)
          ? deliver(mail)
          : err(trouble('unexpected_answer', `\`${inline(mail.id)}\` is no message`))
        if (!taken.ok) {
          const heard = await api('collectMessages', { params: { name }, body: told })
          return heard.ok ? taken : heard
        }
        if (taken.value === null) told.done.push(mail.id)
        else told.failed.push({ id: mail.id, why: taken.value.slice(0, LIMITS.delivery_why_chars) })
      }
      delivered.push(...told.done)
      failed.push(...told.failed)
    }
  },
})

type Told = { done: string[]; failed: { id: string; why: string }[] }

const summary = (delivered: number, failed: Told['failed']): string =>
  [
    `${delivered} delivered`,
    ...(failed.length === 0 ? [] : [`${failed.length} not delivered, and wait still:`]),
    ...failed.map(({ id, why }) => `  ${id}: ${inline(why)}`),
  ]
    .join('\n')
    .concat('\n')
