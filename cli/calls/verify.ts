// Offline verification: an attestation against public keys, a journal against its own chain. Reads files and nothing else; what holds
// and what does not is decided in shared/, where the edge and the tests have it from too.

import type { Check } from '../../shared/evidence/bundle.ts'
import { Bundle, Keys, verifyBundle } from '../../shared/evidence/bundle.ts'
import { verifyChain } from '../../shared/evidence/journal.ts'
import { decidedUnder, PolicySnapshot } from '../../shared/evidence/policy-snapshot.ts'
import type { Statement } from '../../shared/evidence/statement.ts'
import { err, ok } from '../../shared/result.ts'
import { ROUTES } from '../../shared/routes/all.ts'
import type { Answer, Command, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { readJson } from '../shell/files.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, enforced, inline, time } from '../shell/terminal-text.ts'

export const verify: Command = command({
  words: ['verify'],
  args: { 'FILE?': 'a bundle, as `countersign attestation` writes it; - reads standard input' },
  flags: {
    keys: {
      value: 'KEYS',
      what: 'the public keys to trust, as `countersign keys` writes them; get them once, from somebody you trust',
    },
    call: { value: 'CALL', what: 'the call that the bundle is to be about' },
    snapshot: {
      value: 'FILE',
      what: 'the policy snapshot that it is to have been decided under, as `countersign calls snapshot -o` writes it',
    },
    journal: { value: 'FILE', what: 'check a journal instead, as `countersign runs journal -o` writes it' },
    head: {
      value: 'HASH',
      what: 'the head that the journal is to end in; without it, a cut tail can’t be told',
    },
  },
  does: 'Verify an attestation or a journal, offline',
  key: 'offline',
  exits: '0 verified; 1 not verified, or the file can’t be read',
  examples: ['countersign verify bundle.json --keys keys.json', 'countersign verify --journal journal.json'],
  run: async ({ args, flags, paint }) => {
    if (flags.journal !== undefined) {
      const stray = args.FILE ?? flags.keys ?? flags.call ?? flags.snapshot
      return stray === undefined
        ? verifyJournal(flags.journal, flags.head, paint)
        : err(usage(`with \`--journal\`, \`${stray}\` has no meaning; a journal is checked by itself`))
    }
    if (flags.head !== undefined) return err(usage('`--head` is for `--journal`'))
    if (args.FILE === undefined) return err(usage('name a file: countersign verify FILE --keys KEYS'))
    if (flags.keys === undefined)
      return err(usage('`--keys` is missing: countersign verify FILE --keys KEYS'))
    if (args.FILE === '-' && flags.keys === '-')
      return err(usage('standard input can’t be both the bundle and the keys'))
    return verifyFile(args.FILE, flags.keys, flags, paint)
  },
})

type Expected = { readonly call: string | undefined; readonly snapshot: string | undefined }

async function verifyFile(file: string, keyFile: string, expected: Expected, paint: Paint): Answer {
  const keyJson = readJson(keyFile)
  if (!keyJson.ok) return keyJson
  const keys = Keys.safeParse(keyJson.value)
  if (!keys.success)
    return verdict([failing('the key file has the form of one', issue(keys.error))], {}, paint)
  const bundleJson = readJson(file)
  if (!bundleJson.ok) return unread(bundleJson.error, 'the bundle can be read', paint)
  const bundle = Bundle.safeParse(bundleJson.value)
  if (!bundle.success)
    return verdict([failing('the bundle has the form of one', issue(bundle.error))], {}, paint)
  const { checks, statement } = verifyBundle(bundle.data, keys.data)
  const asked =
    expected.call === undefined
      ? []
      : [
          {
            name: 'it is about the call that was asked for',
            ok: statement?.predicate.facts.call === expected.call,
          },
        ]
  const shown = expected.snapshot === undefined ? ok(undefined) : readJson(expected.snapshot)
  if (!shown.ok) return unread(shown.error, 'the snapshot can be read', paint)
  const snapshot = PolicySnapshot.safeParse(shown.value)
  const fits =
    snapshot.success && statement !== undefined && decidedUnder(snapshot.data, statement.predicate.facts)
  const under =
    expected.snapshot === undefined ? [] : [{ name: 'it was decided under this policy snapshot', ok: fits }]
  return verdict([...checks, ...asked, ...under], statement === undefined ? {} : summary(statement), paint)
}

async function verifyJournal(file: string, head: string | undefined, paint: Paint): Answer {
  const journalJson = readJson(file)
  if (!journalJson.ok) return unread(journalJson.error, 'the journal can be read', paint)
  const journal = ROUTES.readJournal.result.safeParse(journalJson.value)
  if (!journal.success)
    return verdict([failing('the journal has the form of one', issue(journal.error))], {}, paint)
  const chain = verifyChain(journal.data.items)
  const whole = 'every entry follows the one before it, from the first on'
  if (!chain.ok)
    return verdict([failing(whole, `entry ${chain.error.seq}: ${chain.error.reason}`)], {}, paint)
  const { seq, hash } = chain.value
  const end = head === undefined ? 'unknown: give --head, and a cut tail shows' : 'the head that was given'
  const asked = head === undefined ? [] : [{ name: 'it ends in the head that was given', ok: hash === head }]
  return verdict([{ name: whole, ok: true }, ...asked], { entries: String(seq), head: hash, end }, paint)
}

const failing = (name: string, detail: string): Check => ({ name, ok: false, detail })
/** A file that could be read but not parsed is evidence too: of the wrong kind. */
const unread = (error: Trouble, check: string, paint: Paint): Awaited<Answer> =>
  error.code === 'unreadable' ? err(error) : verdict([failing(check, error.detail)], {}, paint)
const issue = ({
  issues: [first],
}: {
  readonly issues: readonly { readonly path: readonly PropertyKey[]; readonly message: string }[]
}): string => `\`${first?.path.join('.') || '(the whole)'}\`: ${first?.message ?? 'unknown'}`

/** The checklist, and under it the verdict. What the evidence says is told only where it is to be believed. */
function verdict(
  checks: readonly Check[],
  about: Readonly<Record<string, string>>,
  paint: Paint,
): Awaited<Answer> {
  const verified = checks.length > 0 && checks.every((check) => check.ok)
  const line = ({ name, ok: holds, detail, at }: Check): string => {
    const more = [detail, at === undefined ? undefined : `the fault is at ${at}`].filter(
      (one) => one !== undefined,
    )
    return `  ${holds ? paint.good('ok  ') : paint.bad('FAIL')}  ${inline([name, ...more].join(': '))}\n`
  }
  const said = verified
    ? `${paint.good('verified')}\n${columns(Object.entries(about), '  ')}`
    : `${paint.bad('NOT VERIFIED')}\n`
  return ok({
    ok: verified,
    json: { verified, checks, ...(verified ? { about } : {}) },
    text: `${checks.map(line).join('')}${said}`,
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
    ran: grant === null ? 'nothing' : `on ${grant.worker}: ${execution.executor} (${enforced(execution)})`,
    ...(execution.skill === undefined ? {} : { skill: ofSkill(execution.skill) }),
  }
}

const ofSkill = ({
  digest,
  fuel_used,
  memory_bytes,
}: NonNullable<Statement['predicate']['execution']['skill']>): string =>
  `sha256 ${digest}, ${fuel_used} fuel, ${memory_bytes} bytes of memory`
