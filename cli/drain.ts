// Mails of an outbox, carried to a mail server of one's own: written as files, or handed to a sendmail. Each is told to be done once it is on
// disk or taken, and not before; what is in the way stops it, and stays in the outbox. The one place where the command line starts a program.

import { spawnSync } from 'node:child_process'
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Collected } from '../shared/channels.ts'
import type { Result } from '../shared/result.ts'
import { err, ok } from '../shared/result.ts'
import type { Trouble } from './command.ts'
import { command, trouble, usage } from './command.ts'
import { reason } from './files.ts'
import { inline } from './text.ts'

type Deliver = (mail: Collected) => Result<true, Trouble>

/** A mail server that takes longer than this hangs. */
const SENDMAIL_MS = 60_000
/** What a sendmail needs; our key, which is in our own environment, it does not. */
const SURROUNDINGS = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LANG: 'C.UTF-8' }

/** Whoever looks into the folder finds whole mails alone, each once, whatever dies in between. They hold links: nobody else may read them. */
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
      return ok(true)
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
    const ran = spawnSync(path, ['-t', '-i'], { input, stdio: ['pipe', 'ignore', 'ignore'], env: SURROUNDINGS, timeout: SENDMAIL_MS })
    if (ran.status === 0 && ran.error === undefined) return ok(true)
    const how = ran.status
      ? `ended with ${ran.status}`
      : ran.error === undefined
        ? `ended by ${ran.signal}`
        : `can't be used: ${reason(ran.error)}`
    return err(trouble('sendmail_failed', `\`${path}\` ${how}`))
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
  exits: '0 none waits any more; 1 refused, or one could not be delivered and waits still',
  examples: ['countersign channels drain by-mail --sendmail /usr/sbin/sendmail'],
  async run({ args: { NAME: name }, flags: { dir, sendmail }, api }) {
    if ((dir === undefined) === (sendmail === undefined)) return err(usage('give `--dir` or `--sendmail`, one of the two'))
    const deliver = dir === undefined ? intoSendmail(sendmail ?? '') : intoFolder(dir)
    const delivered: string[] = []
    for (let done: string[] = []; ; ) {
      const waiting = await api('collectMessages', { params: { name }, body: { done } })
      if (!waiting.ok) return waiting
      const { items } = waiting.value
      if (items.length === 0) return ok({ ok: true, json: { delivered }, text: `${delivered.length} delivered\n` })
      done = []
      for (const mail of items) {
        // It names a file, and is another's word.
        const taken = /^msg_[0-9a-f]{32}$/.test(mail.id)
          ? deliver(mail)
          : err(trouble('unexpected_answer', `\`${inline(mail.id)}\` is no message`))
        if (!taken.ok) {
          const told = done.length === 0 ? ok(true) : await api('collectMessages', { params: { name }, body: { done } })
          return told.ok ? taken : told
        }
        done.push(mail.id)
        delivered.push(mail.id)
      }
    }
  },
})
