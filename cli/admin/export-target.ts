// Commands for the bucket that receives a tenant's exports. The secret of its access key comes from
// standard input or a file, never from the command line, where others could read it.

import { LIMITS } from '../../shared/limits.ts'
import { err, ok } from '../../shared/result.ts'
import { type ExportTarget, ExportTargetSpec } from '../../shared/wire/exports.ts'
import type { Command, CommandOutput } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { readBytes } from '../shell/files.ts'
import { parseInput } from '../shell/json-input.ts'
import { columns, inline, time } from '../shell/terminal-text.ts'

const targetOutput = (target: ExportTarget): CommandOutput => ({
  ok: true,
  json: target,
  text: columns(
    [
      ['bucket', target.bucket],
      ['folder', target.prefix],
      ['endpoint', target.endpoint],
      ['region', target.region],
      ['access key', target.access_key_id],
      ['set by', `${inline(target.put_by)}, ${time(target.put_at_ms)}`],
    ],
    '',
  ),
})

const set = command({
  words: ['export-target', 'set'],
  args: {
    BUCKET: 'the bucket, as s3://NAME or s3://NAME/FOLDER',
    FILE: 'the file with the secret of the access key; - reads standard input',
  },
  flags: {
    endpoint: { value: 'URL', what: 'required: the store’s address, without the bucket' },
    region: { value: 'NAME', what: 'the bucket’s region (default: auto)' },
    'access-key': { value: 'ID', what: 'required: the id of an access key that may store and read objects' },
  },
  does: 'Set the bucket of an S3-compatible store that receives exports, after storing a small object there',
  key: 'operator',
  examples: [
    'pass show s3/evidence | countersign export-target set s3://evidence/countersign - --endpoint https://s3.eu-central-1.amazonaws.com --region eu-central-1 --access-key AKIA…',
  ],
  async run({ args, flags, api }) {
    const [, bucket, folder] = /^s3:\/\/([^/]+)(?:\/(.*?))?\/?$/.exec(args.BUCKET) ?? []
    if (bucket === undefined) return err(usage('`BUCKET` must be like s3://evidence or s3://evidence/folder'))
    const secret = readBytes(args.FILE, LIMITS.body_bytes)
    if (!secret.ok) return secret
    const given = {
      endpoint: flags.endpoint,
      region: flags.region ?? 'auto',
      bucket,
      prefix: folder === undefined || folder === '' ? '' : `${folder}/`,
      access_key_id: flags['access-key'],
      secret_access_key: Buffer.from(secret.value).toString('utf8').trim(),
    }
    if (given.endpoint === undefined || given.access_key_id === undefined)
      return err(usage('`--endpoint` and `--access-key` are required'))
    const spec = parseInput(ExportTargetSpec, given, 'the export target')
    if (!spec.ok) return spec
    const put = await api('putExportTarget', { body: spec.value })
    return put.ok ? ok(targetOutput(put.value)) : put
  },
})

const show = command({
  words: ['export-target', 'show'],
  args: {},
  flags: {},
  does: 'Show the bucket that receives exports, without the secret of its access key',
  key: 'operator',
  async run({ api }) {
    const read = await api('readExportTarget', {})
    return read.ok ? ok(targetOutput(read.value)) : read
  },
})

const remove = command({
  words: ['export-target', 'remove'],
  args: {},
  flags: {},
  does: 'Remove the export target; from then on, runs are removed without an export',
  key: 'operator',
  async run({ api }) {
    const gone = await api('deleteExportTarget', {})
    return gone.ok ? ok({ ok: true, json: gone.value, text: 'the export target was removed\n' }) : gone
  },
})

export const EXPORT_TARGET: readonly Command[] = [set, show, remove]
