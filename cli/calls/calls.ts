// Commands about calls and runs: propose, read and cancel them, and fetch their evidence.

import type { JournalEntry } from '../../shared/evidence/journal.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import type { Call } from '../../shared/wire/calls.ts'
import type { Command, CommandContext, CommandResult, Trouble } from '../shell/command.ts'
import { command, usage } from '../shell/command.ts'
import { ARGUMENTS, CALL_EXITS, parseCallId, readArguments } from '../shell/json-input.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline, listing, time } from '../shell/terminal-text.ts'
import { FILE_FLAG, fileRefs, readFiles, uploadFiles } from './call-files.ts'
import { emitEvidence, OUTPUT } from './evidence-file.ts'
import { followOne, followToEnd } from './follow.ts'
import { listCalls, listRuns } from './lists.ts'
import { cancelling, exitsWithZero, rawOutput, showCall } from './render.ts'

const WAIT = { value: 'S', what: `seconds to wait for its end, at most ${LIMITS.wait_s}` } as const
const RAW = {
  what: 'print only the program’s standard output, byte for byte; refused if that goes to a terminal',
} as const
const CALL = { CALL: 'the call’s id' } as const
const RUN = { RUN: 'the run’s id' } as const
const DEFAULT_WAIT_S = 30

function readWait(given: string | undefined, otherwise: number): Result<number, Trouble> {
  if (given === undefined) return ok(otherwise)
  const fits = /^\d{1,3}$/.test(given) && Number(given) <= LIMITS.wait_s
  return fits
    ? ok(Number(given))
    : err(usage(`\`--wait\` must be a number of seconds from 0 to ${LIMITS.wait_s}`))
}

const callOutput = (call: Call, paint: Paint, raw: boolean) =>
  ok({
    ok: exitsWithZero(call),
    json: call,
    text: showCall(call, paint),
    ...(raw ? { raw: rawOutput(call) } : {}),
  })

const call = command({
  words: ['call'],
  args: { TOOL: 'the tool’s name' },
  flags: {
    args: ARGUMENTS,
    wait: { ...WAIT, what: `${WAIT.what} (default: ${DEFAULT_WAIT_S}, or 0 if the call needs an approval)` },
    reason: {
      value: 'TEXT',
      what: `what the call is for, in at most ${LIMITS.reason_chars} characters; approvers see it`,
    },
    run: { value: 'RUN', what: 'the run to propose it in (default: a new run)' },
    file: FILE_FLAG,
    follow: {
      what: 'show its output as it is written, until the call ends; on a terminal, this happens anyway during --wait',
    },
    raw: RAW,
  },
  does: 'Propose a call and wait for its end',
  key: 'agent',
  exits: CALL_EXITS,
  examples: [
    `countersign call text_stats --args '{"text":"who signs, answers"}'`,
    'countersign call report_make --file sales.csv --file q3.json:in/terms.json',
  ],
  async run(given) {
    const { flags, api, paint } = given
    const tool = given.args.TOOL
    if (flags.follow && flags.raw) return err(usage('`--follow` and `--raw` can’t be used together'))
    const args = readArguments(flags.args)
    if (!args.ok) return args
    const files = readFiles(flags.file)
    if (!files.ok) return files
    const wait = readWait(flags.wait, DEFAULT_WAIT_S)
    if (!wait.ok) return wait
    const body = {
      tool,
      args: args.value,
      ...(flags.reason === undefined ? {} : { reason: flags.reason }),
    }
    const held = files.value.length === 0 ? ok(flags.run) : await uploadFiles(api, flags.run, files.value)
    if (!held.ok) return held
    const proposed =
      held.value === undefined
        ? await api('proposeCallInNewRun', { body })
        : await api('proposeCall', {
            params: { run: held.value },
            body: files.value.length === 0 ? body : { ...body, files: fileRefs(files.value) },
          })
    if (!proposed.ok) return proposed
    const { id, run, state, ended_at_ms } = proposed.value
    // A human may take long, so without `--wait` the command returns immediately and says how to
    // approve.
    const asked = state === 'awaiting_approval' && flags.wait === undefined && !flags.follow
    const enough = ended_at_ms !== undefined || wait.value === 0 || asked
    const within_s = flags.follow && flags.wait === undefined ? undefined : wait.value
    if (!enough && (flags.follow || given.terminal)) return followToEnd(given, { run, call: id }, within_s)
    const call = enough ? proposed : await api('readCall', { params: { run, call: id }, wait: wait.value })
    return call.ok ? callOutput(call.value, paint, flags.raw) : call
  },
})

const showOne = command({
  words: ['calls', 'show'],
  args: CALL,
  flags: { wait: { ...WAIT, what: `${WAIT.what} (default: 0)` }, raw: RAW },
  does: 'Show a call, its decision and its result',
  key: 'either',
  exits: CALL_EXITS,
  async run({ args, flags, api, paint }) {
    const params = parseCallId(args.CALL)
    if (!params.ok) return params
    const wait = readWait(flags.wait, 0)
    if (!wait.ok) return wait
    const read = await api('readCall', { params: params.value, wait: wait.value })
    return read.ok ? callOutput(read.value, paint, flags.raw) : read
  },
})

const cancelled = (call: Call, paint: Paint) =>
  ok({
    ok: call.state === 'cancelled' || call.running !== undefined,
    json: call,
    text: showCall(call, paint),
  })

const cancelOne = command({
  words: ['calls', 'cancel'],
  args: CALL,
  flags: {
    wait: { ...WAIT, what: `${WAIT.what} (default: ${DEFAULT_WAIT_S}; 0 returns at once)` },
  },
  does: 'Cancel a call; if it runs, its worker stops it at its next heartbeat',
  key: 'either',
  exits: '0 it is cancelled, or is being stopped; 1 it ended otherwise first',
  async run({ args, flags, api, paint, live }) {
    const params = parseCallId(args.CALL)
    if (!params.ok) return params
    const wait = readWait(flags.wait, DEFAULT_WAIT_S)
    if (!wait.ok) return wait
    const asked = await api('cancelCall', { params: params.value })
    if (!asked.ok) return asked
    const { running } = asked.value
    if (running === undefined || wait.value === 0) return cancelled(asked.value, paint)
    const { note, until } = live()
    note(`cancelling; ${cancelling(running)}`)
    const ended = await api('readCall', { params: params.value, wait: wait.value, signal: until })
    if (!ended.ok && !until.aborted) return ended
    return cancelled(ended.ok ? ended.value : asked.value, paint)
  },
})

const showRun = command({
  words: ['runs', 'show'],
  args: RUN,
  flags: {},
  does: 'Show a run and what it has used of its budget',
  key: 'either',
  run: ({ args, api, paint }) => runSummary(api, 'readRun', args.RUN, paint),
})

const cancelRun = command({
  words: ['runs', 'cancel'],
  args: RUN,
  flags: {},
  does: 'Cancel a run and all of its calls that have not ended',
  key: 'either',
  run: ({ args, api, paint }) => runSummary(api, 'cancelRun', args.RUN, paint),
})

async function runSummary(
  api: CommandContext['api'],
  verb: 'readRun' | 'cancelRun',
  run: string,
  paint: Paint,
): CommandResult {
  const read = await api(verb, { params: { run } })
  if (!read.ok) return read
  const {
    id,
    state,
    agent,
    session,
    channel,
    budget,
    used,
    created_at_ms,
    journal: { seq, head },
  } = read.value
  const rows = [
    ['agent', agent],
    ['session', session],
    ...(channel === null ? [] : [['channel', channel]]),
    ['created', time(created_at_ms)],
    [
      'calls',
      `${used.calls} of ${budget.max_calls_per_run}; denied ${used.denied} of ${budget.max_denied_per_run}`,
    ],
    ['journal', `${seq} entries, head ${head}`],
  ]
  return ok({
    ok: true,
    json: read.value,
    text: `${paint.bold(state)}  ${inline(id)}\n${columns(rows, '  ')}`,
  })
}

const journal = command({
  words: ['runs', 'journal'],
  args: RUN,
  flags: { output: OUTPUT },
  does: 'Show the journal of a run, its hash-chained events; `countersign verify --journal` checks the saved file',
  key: 'either',
  async run({ args, flags, api, paint }) {
    const items: JournalEntry[] = []
    for (;;) {
      const page = await api('readJournal', {
        params: { run: args.RUN },
        query: { after: items.at(-1)?.seq ?? 0 },
      })
      if (!page.ok) return page
      if (page.value.items.length === 0) break
      items.push(...page.value.items)
    }
    const rows = items.map(({ seq, at_ms, kind, call: id }) => [String(seq), time(at_ms), kind, id ?? ''])
    return emitEvidence(
      { items },
      flags.output,
      listing(paint, ['seq', 'at', 'event', 'call'], rows, 'the journal is empty'),
    )
  },
})

const attestation = command({
  words: ['attestation'],
  args: CALL,
  flags: { output: OUTPUT },
  does: 'Fetch the attestation of an ended call and all else that `countersign verify` needs, except the keys',
  key: 'either',
  examples: [
    'countersign attestation call_01ABC…_1 -o bundle.json',
    'countersign keys list -o keys.json',
    'countersign verify bundle.json --keys keys.json',
  ],
  async run({ args, flags, api }) {
    const params = parseCallId(args.CALL)
    if (!params.ok) return params
    const bundle = await api('readAttestation', { params: params.value })
    return bundle.ok ? emitEvidence(bundle.value, flags.output) : bundle
  },
})

const snapshot = command({
  words: ['calls', 'snapshot'],
  args: CALL,
  flags: { output: OUTPUT },
  does: 'Fetch the policy snapshot under which a call was decided',
  key: 'either',
  async run({ args, flags, api }) {
    const params = parseCallId(args.CALL)
    if (!params.ok) return params
    const read = await api('readSnapshot', { params: params.value })
    return read.ok ? emitEvidence(read.value, flags.output) : read
  },
})

export const CALLS: readonly Command[] = [
  call,
  showOne,
  followOne,
  listCalls,
  cancelOne,
  listRuns,
  showRun,
  cancelRun,
  journal,
  attestation,
  snapshot,
]
