// Offline verification: attestations against public keys, a journal against its own hash chain.
// Reads local files only. The checks themselves are in shared/evidence/, which the edge uses too.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { type Check, UNCHECKABLE } from '../../shared/evidence/checks.ts'
import { cosignedBy } from '../../shared/evidence/cosignature.ts'
import { verifyChain } from '../../shared/evidence/journal.ts'
import { followChain, type Keys, readKeys } from '../../shared/evidence/keys.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Command, CommandResult, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { readJson, reason } from '../shell/files.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, enforcementLabel, inline, time } from '../shell/terminal-text.ts'
import { cosignatureChecks, cosignersText, type Quorum, quorumOf, WITNESS_FLAGS } from './cosignatures.ts'
import { verifyExport } from './verify-export.ts'

/** The flags of commands that verify. */
export const KEY_FILES = {
  keys: {
    value: 'KEYS',
    what: 'the public keys to trust, from `countersign keys list`; get them once, from somebody you trust',
  },
  pinned: {
    value: 'KEYS',
    what: 'a key file that you have trusted before: the chain in the file of `--keys` must continue from it',
  },
} as const

export const verify: Command = command({
  words: ['verify'],
  args: { 'FILE?': 'a bundle from `countersign attestation`, or a folder of them; - reads standard input' },
  flags: {
    ...KEY_FILES,
    ...WITNESS_FLAGS,
    call: { value: 'CALL', what: 'also check that the bundle is about this call' },
    journal: {
      value: 'FILE',
      what: 'check a journal instead, from `countersign runs journal -o` or `countersign journal -o`',
    },
    export: {
      value: 'PATH',
      what: 'check exported runs instead: a file, or a folder with all of them, from `countersign export`',
    },
    head: {
      value: 'HASH',
      what: 'with `--journal`: the hash of its last entry; without it, missing entries at the end go unnoticed',
    },
  },
  does: 'Verify attestations, a journal or exported runs, offline',
  key: 'offline',
  exits: '0 verified; 1 not verified, or the file can’t be read',
  examples: [
    'countersign verify bundle.json --keys keys.json',
    'countersign verify bundles/ --keys keys.json',
    'countersign verify bundle.json --keys keys.json --witness VKEY1 --witness VKEY2 --witnesses 1',
    'countersign verify --journal journal.json',
    'countersign verify --export /backups/evidence --keys keys.json',
  ],
  run: async ({ args, flags, paint }) => {
    const quorum = quorumOf(flags)
    if (!quorum.ok) return quorum
    const [witness] = flags.witness
    if (flags.journal !== undefined) {
      const stray = args.FILE ?? flags.keys ?? flags.pinned ?? flags.call ?? witness
      return stray === undefined
        ? verifyJournal(flags.journal, flags.head, paint)
        : err(usage(`\`--journal\` checks a journal alone; leave out \`${stray}\``))
    }
    if (flags.export !== undefined) {
      const stray = args.FILE ?? flags.call ?? flags.head ?? witness
      if (stray !== undefined)
        return err(usage(`\`--export\` checks exported runs alone; leave out \`${stray}\``))
      return flags.keys === undefined
        ? err(usage('`--keys` is missing; usage: countersign verify --export PATH --keys KEYS'))
        : verifyExported(flags.export, flags, paint)
    }
    if (flags.head !== undefined) return err(usage('`--head` needs `--journal FILE`'))
    if (args.FILE === undefined)
      return err(usage('`FILE` is missing; usage: countersign verify FILE --keys KEYS'))
    if (flags.keys === undefined)
      return err(usage('`--keys` is missing; usage: countersign verify FILE --keys KEYS'))
    if (args.FILE === '-' && flags.keys === '-')
      return err(usage('standard input can’t be both the bundle and the keys'))
    return verifyPath(args.FILE, flags, { call: flags.call, quorum: quorum.value }, paint)
  },
})

/** The call that a bundle must be about, and who must have cosigned its checkpoint, if the user said so. */
type Expected = { readonly call: string | undefined; readonly quorum: Quorum | undefined }

/** The key file, and one that was trusted before it, if any. */
type KeyFiles = { readonly keys: string | undefined; readonly pinned: string | undefined }

async function verifyExported(path: string, keyFiles: KeyFiles, paint: Paint): CommandResult {
  const keys = trustedKeys(keyFiles, paint)
  if (!keys.ok) return keys.error
  try {
    const verified = await verifyExport(path, keys.value)
    return verified.ok ? verdict(verified.value.checks(), verified.value.about(), paint) : verified
  } catch (thrown) {
    return err(trouble('unreadable', `\`${path}\` can’t be read: ${reason(thrown)}`))
  }
}

/** Its error is the result that the command returns. */
export function trustedKeys({ keys: file, pinned }: KeyFiles, paint: Paint): ReturnType<typeof keysIn> {
  if (file === undefined)
    return err(err(usage('`--keys` is missing: name the file with the public keys to trust')))
  const keys = keysIn(file, paint)
  if (!keys.ok || pinned === undefined) return keys
  const before = keysIn(pinned, paint)
  if (!before.ok) return before
  const followed = followChain(before.value, keys.value)
  return followed.ok
    ? followed
    : err(verdict([failedCheck('the key file continues the pinned one', followed.error)], {}, paint))
}

function keysIn(file: string, paint: Paint): Result<Keys, Awaited<CommandResult>> {
  const json = readJson(file)
  if (!json.ok) return err(json)
  const keys = readKeys(json.value)
  return keys.ok
    ? keys
    : err(
        verdict(
          [failedCheck('the key file is well-formed', `${keys.error.at}: ${keys.error.detail}`)],
          {},
          paint,
        ),
      )
}

/** `path`: a bundle, or a folder with any number of them. */
async function verifyPath(path: string, keyFiles: KeyFiles, expected: Expected, paint: Paint): CommandResult {
  const keys = trustedKeys(keyFiles, paint)
  if (!keys.ok) return keys.error
  if (!isFolder(path)) {
    const examined = examine(path, keys.value, expected)
    return examined.ok ? verdict(examined.value.checks, examined.value.about, paint) : examined
  }
  const faults: Check[] = []
  const names = readdirSync(path).filter((name) => name.endsWith('.json'))
  for (const name of names) {
    const examined = examine(join(path, name), keys.value, expected)
    const checks = examined.ok ? examined.value.checks : [failedCheck(READABLE, examined.error.detail)]
    const failed = checks.find((check) => !check.ok)
    if (failed !== undefined) faults.push({ ...failed, name: `${name}: ${failed.name}` })
  }
  if (names.length === 0) faults.push(failedCheck(EACH, 'the folder has no file `*.json`'))
  const checks = faults.length === 0 ? [{ name: EACH, ok: true }] : faults
  return verdict(checks, { bundles: String(names.length) }, paint)
}

const EACH = 'each bundle in the folder is verified'
const READABLE = 'the bundle can be read'
const isFolder = (path: string): boolean =>
  path !== '-' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

type Examined = { readonly checks: readonly Check[]; readonly about: Readonly<Record<string, string>> }

/** A file that can't be opened is an error; one that can be opened but not parsed is not verified. */
function examine(file: string, keys: Keys, { call, quorum }: Expected): Result<Examined, Trouble> {
  const failed = (name: string, detail: string) => ok({ checks: [failedCheck(name, detail)], about: {} })
  const json = readJson(file)
  if (!json.ok) return json.error.code === 'unreadable' ? json : failed(READABLE, json.error.detail)
  const bundle = Bundle.safeParse(json.value)
  if (!bundle.success) return failed('the bundle is well-formed', issue(bundle.error))
  const { checks, statement } = verifyBundle(bundle.data, keys)
  const { checkpoint } = bundle.data.log
  const asked = cosignatureChecks(checkpoint, quorum)
  if (call !== undefined) {
    const isAbout = statement?.predicate.facts.call === call
    asked.push({ name: 'the bundle is about the call given with --call', ok: isAbout })
  }
  const by = cosignersText(cosignedBy(checkpoint, quorum?.keys ?? []))
  const about = statement === undefined ? {} : summary(statement)
  return ok({ checks: [...checks, ...asked], about: { ...about, ...(by === '' ? {} : { cosigned: by }) } })
}

async function verifyJournal(file: string, head: string | undefined, paint: Paint): CommandResult {
  const journalJson = readJson(file)
  if (!journalJson.ok) return unreadableVerdict(journalJson.error, 'the journal can be read', paint)
  const journal = ROUTES.readJournal.result.safeParse(journalJson.value)
  if (!journal.success)
    return verdict([failedCheck('the journal is well-formed', issue(journal.error))], {}, paint)
  const chain = verifyChain(journal.data.items)
  const whole = 'every entry links to the one before it, from the first entry on'
  if (!chain.ok)
    return verdict([failedCheck(whole, `entry ${chain.error.seq}: ${chain.error.reason}`)], {}, paint)
  const { seq, hash } = chain.value
  const end =
    head === undefined
      ? 'not checked: give --head to detect missing entries at the end'
      : 'the head given with --head'
  const asked =
    head === undefined
      ? []
      : [{ name: 'the journal ends with the head given with --head', ok: hash === head }]
  return verdict([{ name: whole, ok: true }, ...asked], { entries: String(seq), head: hash, end }, paint)
}

const failedCheck = (name: string, detail: string): Check => ({ name, ok: false, detail })
/**
 * A file that can't be opened is an error; one that can be opened but not parsed is not verified.
 */
const unreadableVerdict = (error: Trouble, check: string, paint: Paint): Awaited<CommandResult> =>
  error.code === 'unreadable' ? err(error) : verdict([failedCheck(check, error.detail)], {}, paint)
const issue = ({
  issues: [first],
}: {
  readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]
}): string => `\`${first?.path.join('.') || '(the whole)'}\`: ${first?.message ?? 'unknown'}`

/** The checklist and the verdict. The contents of the evidence are shown only if it is verified. */
export function verdict(
  checks: readonly Check[],
  about: Readonly<Record<string, string>>,
  paint: Paint,
): Awaited<CommandResult> {
  const verified = checks.length > 0 && checks.every((check) => check.ok)
  const line = ({ name, ok: holds, detail, at }: Check): string => {
    const more = [detail, at === undefined ? undefined : `the difference is at ${at}`].filter(
      (one) => one !== undefined,
    )
    return `  ${holds ? paint.good('ok  ') : paint.bad('FAIL')}  ${inline([name, ...more].join(': '))}\n`
  }
  const conclusion = verified
    ? `${paint.good('verified')}\n${columns(Object.entries(about), '  ')}`
    : `${paint.bad('NOT VERIFIED')}\n`
  return ok({
    ok: verified,
    json: { verified, checks, unchecked: UNCHECKABLE, ...(verified ? { about } : {}) },
    text: `${checks.map(line).join('')}${conclusion}`,
  })
}

function summary({
  predicate: { state, error, facts, grant, execution, attestation_id },
}: Statement): Record<string, string> {
  const approvers = facts.approval?.answers.map(({ by, decision }) => `${decision} by ${by}`).join(', ')
  return {
    attestation: attestation_id,
    call: facts.call,
    tenant: facts.tenant,
    agent: facts.agent,
    tool: `${facts.tool.name}, version ${facts.tool.version}`,
    decided: `${facts.decision.effect} by ${facts.decision.policies.join(', ') || 'no policy'}`,
    ...(approvers === undefined || approvers === '' ? {} : { approval: approvers }),
    ended: `${state}${error === null || error === state ? '' : `, ${error}`}, ${time(execution.ended_at_ms)}`,
    ran:
      grant === null
        ? 'nothing'
        : `on ${grant.worker}: ${execution.executor} (${enforcementLabel(execution)})`,
    ...(execution.skill === undefined ? {} : { skill: skillText(execution.skill) }),
    ...(execution.upstream === undefined ? {} : { upstream: upstreamText(execution.upstream) }),
  }
}

const skillText = ({
  digest,
  fuel_used,
  memory_bytes,
}: NonNullable<Statement['predicate']['execution']['skill']>): string =>
  `sha256 ${digest}, ${fuel_used} fuel, ${memory_bytes} bytes of memory`

const upstreamText = ({
  name,
  origin,
  definition_sha256,
}: NonNullable<Statement['predicate']['execution']['upstream']>): string =>
  `${name}, ${origin}, definition sha256 ${definition_sha256}`
