// `countersign log export` and `countersign log verify`: all evidence of a tenant and its log, from
// the edge or from a folder. An export is verified while it is written.

import type { Keys } from '../../shared/evidence/keys.ts'
import { PATTERNS } from '../../shared/ids.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { type Quorum, quorumOf, WITNESS_FLAGS } from '../calls/cosignatures.ts'
import { parseTime } from '../calls/lists.ts'
import { KEY_FILES, trustedKeys, verdict } from '../calls/verify.ts'
import { type CommandResult, command, type Trouble, usage } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { type Evidence, type Extent, edgeEvidence, folderEvidence, recorded } from './evidence.ts'
import { verifyEvidence } from './verify-log.ts'

const TIME = 'a time such as 2026-11-19T08:00:00Z, or an age such as 30m, 12h or 7d'
const EXTENT = {
  since: { value: 'TIME', what: `only runs that were created after this: ${TIME}` },
  until: { value: 'TIME', what: `only runs that were created before this: ${TIME}` },
  run: { value: 'RUN', what: 'only this run, and the runs that are stored in the same object' },
} as const
type ExtentFlags = { readonly [K in keyof typeof EXTENT]: string | undefined }
export const exportLog = command({
  words: ['log', 'export'],
  args: { DIR: 'the folder to write to; an earlier export there is continued' },
  flags: { ...EXTENT, ...KEY_FILES, ...WITNESS_FLAGS },
  does: 'Export runs, the tenant’s journals and the log to a folder, and verify them at the same time; `countersign log verify DIR` verifies them again, offline',
  key: 'operator',
  exits: '0 exported and verified; 1 not verified, or failed',
  examples: ['countersign log export /backups/log --keys keys.json --since 7d'],
  async run({ args, flags, api, connection, paint }) {
    const given = givenIn(flags, paint)
    if (!given.ok) return given.error
    const evidence = recorded(edgeEvidence(api, given.value, connection().url), args.DIR)
    return verified(evidence, given.value, isPart(flags), paint)
  },
})

export const verifyLog = command({
  words: ['log', 'verify'],
  args: {
    'DIR?': 'a folder from `countersign log export`, verified without an edge (default: ask the edge)',
  },
  flags: {
    ...EXTENT,
    part: {
      what: 'with DIR: the folder has only the runs of a period, or a single run; otherwise it must have each leaf of the log',
    },
    ...KEY_FILES,
    ...WITNESS_FLAGS,
  },
  does: 'Verify the whole log or a part of it: signatures, journals, grants, and that the log has each end of a call once and nothing else',
  key: 'operator',
  keyForArgument: 'offline',
  exits: '0 verified; 1 not verified, or the evidence can’t be read',
  examples: [
    'countersign log verify --keys keys.json',
    'countersign log verify --run run_01ABC… --keys keys.json',
    'countersign log verify /backups/log --part --keys keys.json',
  ],
  async run({ args, flags, api, connection, paint }) {
    const given = givenIn(flags, paint)
    if (!given.ok) return given.error
    if (args.DIR === undefined)
      return flags.part
        ? err(usage('`--part` needs a folder; name a period or a run instead'))
        : verified(edgeEvidence(api, given.value, connection().url), given.value, isPart(flags), paint)
    return isPart(flags)
      ? err(usage('a folder is verified as a whole: leave out `--since`, `--until` and `--run`'))
      : verified(folderEvidence(args.DIR), given.value, flags.part, paint)
  },
})

/** The keys that must have signed the evidence, the witnesses that must have cosigned its log, and its extent. */
type Given = { readonly keys: Keys; readonly quorum: Quorum | undefined; readonly extent: Extent }
type Flags = Parameters<typeof trustedKeys>[0] & Parameters<typeof quorumOf>[0] & ExtentFlags

/** Its error is the result that the command returns. */
function givenIn(flags: Flags, paint: Paint): Result<Given, Awaited<CommandResult>> {
  const [quorum, extent] = [quorumOf(flags), extentOf(flags)]
  if (!quorum.ok) return err(quorum)
  if (!extent.ok) return err(extent)
  const keys = trustedKeys(flags, paint)
  return keys.ok ? ok({ keys: keys.value, quorum: quorum.value, extent: extent.value }) : keys
}

function extentOf({ since, until, run }: ExtentFlags): Result<Extent, Trouble> {
  const [from, to] = [parseTime('--since', since), parseTime('--until', until)]
  if (!from.ok) return from
  if (!to.ok) return to
  if (run === undefined) return ok({ since: from.value, until: to.value })
  if (since !== undefined || until !== undefined)
    return err(usage('`--run` can’t be combined with `--since` or `--until`'))
  return PATTERNS.run.test(run)
    ? ok({ run })
    : err(usage('`--run` is not the id of a run; those look like run_01ABC…'))
}

const isPart = ({ since, until, run }: ExtentFlags): boolean =>
  since !== undefined || until !== undefined || run !== undefined

async function verified(
  evidence: Evidence,
  { keys, quorum }: Given,
  part: boolean,
  paint: Paint,
): CommandResult {
  try {
    const done = await verifyEvidence(evidence, keys, part, quorum)
    return done.ok ? verdict(done.value.checks, done.value.about, paint) : done
  } catch (thrown) {
    if (!(thrown instanceof Error && 'syscall' in thrown)) throw thrown // a bug
    return err({ exit: 1, code: 'unreadable', detail: `the folder can’t be read: ${reason(thrown)}` })
  }
}
