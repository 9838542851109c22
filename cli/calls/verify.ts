// Offline verification: an attestation against public keys, a journal against its own hash chain.
// Reads local files only. The checks themselves are in shared/evidence/, which the edge uses too.

import type { Check } from '../../shared/evidence/bundle.ts'
import { Bundle, verifyBundle } from '../../shared/evidence/bundle.ts'
import { verifyChain } from '../../shared/evidence/journal.ts'
import { followChain, type Keys, readKeys } from '../../shared/evidence/keys.ts'
import { decidedUnder, PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Command, CommandResult, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { readJson, reason } from '../shell/files.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, enforcementLabel, inline, time } from '../shell/terminal-text.ts'
import { verifyExport } from './verify-export.ts'

export const verify: Command = command({
  words: ['verify'],
  args: { 'FILE?': 'a bundle from `countersign attestation`; - reads standard input' },
  flags: {
    keys: {
      value: 'KEYS',
      what: 'the public keys to trust, from `countersign keys`; get them once, from somebody you trust',
    },
    pinned: {
      value: 'KEYS',
      what: 'a key file that you have trusted before: the chain in the one of `--keys` must lead on from it',
    },
    call: { value: 'CALL', what: 'also check that the bundle is about this call' },
    snapshot: {
      value: 'FILE',
      what: 'also check that the call was decided under this policy snapshot, from `countersign calls snapshot -o`',
    },
    journal: { value: 'FILE', what: 'check a journal instead, from `countersign runs journal -o`' },
    export: {
      value: 'PATH',
      what: 'check exported runs instead: a file, or a folder with all of them, from `countersign export`',
    },
    head: {
      value: 'HASH',
      what: 'with `--journal`: the hash of its last entry; without it, missing entries at the end go unnoticed',
    },
  },
  does: 'Verify an attestation, a journal or exported runs, offline',
  key: 'offline',
  exits: '0 verified; 1 not verified, or the file can’t be read',
  examples: [
    'countersign verify bundle.json --keys keys.json',
    'countersign verify --journal journal.json',
    'countersign verify --export /backups/evidence --keys keys.json',
  ],
  run: async ({ args, flags, paint }) => {
    if (flags.journal !== undefined) {
      const stray = args.FILE ?? flags.keys ?? flags.pinned ?? flags.call ?? flags.snapshot
      return stray === undefined
        ? verifyJournal(flags.journal, flags.head, paint)
        : err(usage(`\`--journal\` checks a journal alone; leave out \`${stray}\``))
    }
    if (flags.export !== undefined) {
      const stray = args.FILE ?? flags.call ?? flags.snapshot ?? flags.head
      if (stray !== undefined)
        return err(usage(`\`--export\` checks exported runs alone; leave out \`${stray}\``))
      return flags.keys === undefined
        ? err(usage('`--keys` is missing; usage: countersign verify --export PATH --keys KEYS'))
        : verifyExported(flags.export, { file: flags.keys, pinned: flags.pinned }, paint)
    }
    if (flags.head !== undefined) return err(usage('`--head` needs `--journal FILE`'))
    if (args.FILE === undefined)
      return err(usage('`FILE` is missing; usage: countersign verify FILE --keys KEYS'))
    if (flags.keys === undefined)
      return err(usage('`--keys` is missing; usage: countersign verify FILE --keys KEYS'))
    if (args.FILE === '-' && flags.keys === '-')
      return err(usage('standard input can’t be both the bundle and the keys'))
    return verifyFile(args.FILE, { file: flags.keys, pinned: flags.pinned }, flags, paint)
  },
})

type Expected = { readonly call: string | undefined; readonly snapshot: string | undefined }

/** The key file, and one that was trusted before it, if any. */
type KeyFiles = { readonly file: string; readonly pinned: string | undefined }

async function verifyExported(path: string, keyFiles: KeyFiles, paint: Paint): CommandResult {
  const keys = trustedKeys(keyFiles, paint)
  if (!keys.ok) return keys.error
  try {
    const { checks, about } = verifyExport(path, keys.value)
    return verdict(checks, about, paint)
  } catch (thrown) {
    return err(trouble('unreadable', `\`${path}\` can’t be read: ${reason(thrown)}`))
  }
}

/** Its error is the result that the command returns. */
function trustedKeys({ file, pinned }: KeyFiles, paint: Paint): ReturnType<typeof keysIn> {
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

async function verifyFile(file: string, keyFiles: KeyFiles, expected: Expected, paint: Paint): CommandResult {
  const keys = trustedKeys(keyFiles, paint)
  if (!keys.ok) return keys.error
  const bundleJson = readJson(file)
  if (!bundleJson.ok) return unreadableVerdict(bundleJson.error, 'the bundle can be read', paint)
  const bundle = Bundle.safeParse(bundleJson.value)
  if (!bundle.success)
    return verdict([failedCheck('the bundle is well-formed', issue(bundle.error))], {}, paint)
  const { checks, statement } = verifyBundle(bundle.data, keys.value)
  const asked =
    expected.call === undefined
      ? []
      : [
          {
            name: 'the bundle is about the call given with --call',
            ok: statement?.predicate.facts.call === expected.call,
          },
        ]
  const shown = expected.snapshot === undefined ? ok(undefined) : readJson(expected.snapshot)
  if (!shown.ok) return unreadableVerdict(shown.error, 'the snapshot can be read', paint)
  const snapshot = PolicySnapshot.safeParse(shown.value)
  const fits =
    snapshot.success && statement !== undefined && decidedUnder(snapshot.data, statement.predicate.facts)
  const under =
    expected.snapshot === undefined
      ? []
      : [{ name: 'the call was decided under this policy snapshot', ok: fits }]
  return verdict([...checks, ...asked, ...under], statement === undefined ? {} : summary(statement), paint)
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
function verdict(
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
    json: { verified, checks, ...(verified ? { about } : {}) },
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
