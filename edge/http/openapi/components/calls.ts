// Runs, calls and tools as agents see them.

import { CallState, ToolRef } from '../../../../shared/evidence/statement.ts'
import { CallId, Name, RunId, Sha256, ToolName } from '../../../../shared/fields.ts'
import { HeldFile, OutputFiles } from '../../../../shared/plan/call-files.ts'
import { ProcessExecutor } from '../../../../shared/plan/executor.ts'
import {
  Argv,
  Budget,
  Credentials,
  Environment,
  HostPattern,
  HostPort,
  Limits,
  Outcome,
  Plan,
  ProcessPlan,
  SkillExecutor,
  SkillLimits,
  SkillPlan,
} from '../../../../shared/plan/plan.ts'
import { HypotheticalCall, ProposedCall, ProposedCallInNewRun } from '../../../../shared/wire/call-request.ts'
import { Call, CallResult, Decision, DryRun, ListedCall } from '../../../../shared/wire/calls.ts'
import { Change, Explanation } from '../../../../shared/wire/explanation.ts'
import { ListedRun, Run, RunSpec } from '../../../../shared/wire/runs.ts'
import { ToolSummary } from '../../../../shared/wire/tools.ts'
import { base, type Component, object, opaque, plain } from './component.ts'

const TOOL = ''
const ARGS = 'The arguments, which must match the tool’s `input_schema`.'
const REASON = 'What the agent says it is doing and why, for people who approve. It changes no decision.'
const CREATED = 'When it was created, in ms since 1970.'

const SPEC_LIMITS = {
  timeout_ms: 'Wall-clock time of the call.',
  cpu_ms: 'CPU time of all its processes.',
  memory_bytes: 'Memory of all its processes.',
  pids: 'Processes and threads at a time.',
  open_files: 'Open files of one process.',
  file_bytes: 'The largest file that it may write.',
  workspace_bytes: 'Bytes of its workspace on disk.',
  workspace_inodes: 'Files and folders of its workspace.',
  output_bytes: 'Bytes of each output stream that are kept.',
  net_bytes: 'Bytes through its proxy, both ways.',
  net_connections: 'Attempts to connect.',
}

const SKILL = {
  kind: 'A skill.',
  skill: 'The name of the skill.',
  version: 'Its version.',
  digest: 'The digest of manifest and component.',
  tool: 'The name of the tool inside the skill.',
  capabilities: 'The capabilities that it is granted.',
  methods: 'The permitted methods of its requests.',
  kv: 'The permitted prefixes of keys.',
  channels: 'The channels that it may write to.',
}
export const OUTPUT = 'The schema that its output must match.'

export const CALLS: Readonly<Record<string, Component>> = {
  RunId: plain(RunId, 'The id of a run.'),
  CallId: plain(CallId, 'The id of a call, which contains that of its run.'),
  Name: plain(Name, 'A name: letters, digits, `_`, `.` and `-`.'),
  ToolName: plain(ToolName, 'The name of a tool.'),
  Sha256: plain(Sha256, 'A SHA-256 digest in hex.'),
  RunSpec: object(RunSpec, 'What a new run is for. All fields are optional.', {
    session: 'The conversation that it belongs to, by an id of your choice. By default its own.',
    channel: 'The channel that the task came from, if policies distinguish channels.',
    device: 'The device that the task came from, by an id of your choice.',
    budget: 'Lower limits than the agent’s own budget.',
  }),
  Run: object(Run, 'One task of an agent, with one budget.', {
    id: '',
    agent: '',
    session: 'The conversation that it belongs to; the id of the run if none was named.',
    channel: 'The channel that it came from, if one was named.',
    device: 'The device that it came from, if one was named.',
    state: 'A cancelled run takes no more calls.',
    budget: '',
    used: 'Calls so far: allowed or asked about, and denied or refused.',
    created_at_ms: CREATED,
    journal: 'The head of its journal: the number and hash of the last entry.',
  }),
  ListedRun: object(ListedRun, 'A run in a list.', {
    id: '',
    agent: '',
    session: 'The conversation that it belongs to; the id of the run if none was named.',
    channel: 'The channel that it came from, if one was named.',
    state: 'A cancelled run takes no more calls.',
    created_at_ms: CREATED,
  }),
  Budget: object(Budget, 'The most that the calls of one run may use together.', {
    max_calls_per_run: 'Calls that policy did not deny.',
    execution_timeout_ms: 'The longest time of one execution.',
    max_denied_per_run: 'Calls that were denied or refused.',
  }),
  CallProposal: base(
    object(ProposedCall.omit({ files: true }), 'What to call, and why.', {
      tool: TOOL,
      args: ARGS,
      reason: REASON,
    }),
  ),
  ProposedCall: object(ProposedCall, 'A call to propose in an existing run.', {
    tool: TOOL,
    args: ARGS,
    reason: REASON,
    files: 'Files that were uploaded to the run before, each with its path below `/input`.',
  }),
  ProposedCallInNewRun: object(ProposedCallInNewRun, 'A call to propose in a new run.', {
    tool: TOOL,
    args: ARGS,
    reason: REASON,
    run: '',
    files: 'Not allowed: files belong to a run, and this request creates a new one.',
  }),
  HypotheticalCall: object(HypotheticalCall, 'A call that is decided but not proposed.', {
    tool: TOOL,
    args: ARGS,
    run: '',
    agent: 'The agent that would propose it. An agent leaves this out; an operator names one.',
    files: 'Input files that it would bring; they need not exist.',
  }),
  Call: object(Call, 'One proposed tool call: decision, state, and result once it has ended.', {
    id: '',
    run: '',
    tool: '',
    state: 'Where it is. Once it has ended, `ended_at_ms` is set.',
    digest: 'The digest of tool, arguments and plan, which approval, grant and attestation are bound to.',
    origin: 'What the agent says about the call, and where the call came from.',
    decision: 'What policy decided, and why.',
    approval: 'The approval that it waits for or got, with its page for operators.',
    plan: '',
    running: 'While it runs: its worker (`edge` for skills).',
    edited:
      'The arguments that an operator changed before approving. They run, instead of the proposed ones.',
    result: 'Set once it has ended.',
    attestation: 'The signed statement about the end of the call.',
    created_at_ms: 'When it was proposed, in ms since 1970.',
    ended_at_ms: 'When it ended.',
    removed: 'The parts of it that the tenant’s retention rule has removed. Digests stay.',
  }),
  ListedCall: object(ListedCall, 'A call in a list.', {
    id: '',
    run: '',
    agent: 'The agent that proposed it.',
    tool: 'The tool that it calls.',
    state: '',
    created_at_ms: 'When it was proposed, in ms since 1970.',
    ended_at_ms: 'When it ended; absent if it has not.',
  }),
  CallState: plain(
    CallState,
    'Where a call is. `awaiting_approval`, `granted` and `running` are not ends; all others are.',
  ),
  CallResult: object(CallResult, 'How a call ended, and what it wrote.', {
    ok: 'Whether the call succeeded.',
    output: 'Standard output. If it was cut: its head, then its tail.',
    encoding: 'The encoding of `output`: `base64` if the bytes are not UTF-8.',
    stderr: 'Standard error.',
    exit_code: 'The exit code of the program; null if it has none.',
    files: 'The files that the call left, if its tool keeps them.',
    truncated: 'Whether output was cut.',
    error: 'Why the call did not succeed.',
  }),
  Decision: object(Decision, 'What policy decided about a call.', {
    effect: '`allow`: it runs. `ask`: humans answer first. `deny`: it does not run.',
    code: 'Stable. The code of a denial is also the error of the call.',
    policies: 'The policies that determined the decision.',
    reason: 'Why, in a sentence.',
    policy_set: 'The digest of the policy set that decided.',
    snapshot: 'The digest of the policy snapshot.',
    explanation: '',
  }),
  Explanation: object(Explanation, 'Why a call was not simply allowed, and what would change that.', {
    policies: 'The policies that determined the decision.',
    plans:
      'The rejected plans, least isolated first, with the policies that refused them. `asks`: it needs an approval.',
    changes:
      'Alternatives, smallest first. All changes of one together would allow the call, as the engine has verified.',
    fixed: 'If no change would help: the facts behind the denial.',
    errors: 'For operators only: what the engine says about policies that err.',
  }),
  Change: object(Change, 'A fact, and the value that it needs.', {
    fact: 'The name of the fact in policies.',
    is: 'Its value now.',
    needs: 'What it has to be. `value` is left out if it names somebody whom the reader may not see.',
    by: 'Who can change it: the agent (arguments), a human (approval), an operator (settings), or time.',
    words: 'The change as a sentence.',
  }),
  DryRun: object(DryRun, 'The decision that a call would get now.', {
    decision: 'The decision, its reasons, and what would change it.',
    digest: 'The digest of a call that exists.',
    plan: 'What would run; null if the call is denied.',
  }),
  ToolSummary: object(ToolSummary, 'A tool as an agent sees it.', {
    name: 'The name to propose calls with.',
    version: 'Each change of a tool is a new version.',
    digest: '',
    description: 'What the tool does, for the model.',
    input_schema: 'JSON Schema of the arguments.',
    output_schema: 'JSON Schema of the result, if the tool declares one.',
    capabilities: 'What calls of the tool are able to do.',
    sensitive: 'Whether its calls may do harm.',
    input_files: 'Whether its calls may bring files.',
  }),
  ToolRef: object(ToolRef, 'One version of a tool.', {
    name: 'The name to propose calls with.',
    version: 'Each change of a tool is a new version.',
    digest: '',
  }),
  HeldFile: object(HeldFile, 'A file that a run holds.', {
    sha256: 'The digest of its bytes, which names it.',
    bytes: 'Its size.',
    named: 'Whether a call uses it.',
    until_ms: 'When it is deleted, unless it is uploaded or used again.',
  }),
  OutputFiles: object(OutputFiles, 'The files that a call left in `/output`.', {
    files: 'The files that were kept, each with its path, digest and size.',
    left: 'The files that were not kept, and why.',
    more: 'How many more were not kept.',
  }),
  Plan: plain(Plan, 'What exactly runs, and where.'),
  ProcessPlan: object(ProcessPlan, 'A program that a worker runs.', {
    tier: 'B: a process of the worker’s user. C: a sandbox.',
    executor: 'The program.',
    egress: 'The hosts that it may reach, and how that is enforced.',
    profile: 'A profile that the worker’s operator added; a worker without it refuses.',
    secrets: 'Secrets that the process receives.',
    credentials: 'Secrets that only its proxy receives.',
    workspace: '`call`: a new folder, deleted afterwards. `run`: a folder that the calls of a run share.',
    files: 'Input files, read-only in `/input`.',
    outputs: 'Whether files that the call leaves in `/output` are kept.',
    limits: '',
    cgroup: 'Requires a worker that limits all processes of the call with a cgroup.',
  }),
  PlannedSkill: object(SkillPlan.shape.executor, 'The tool of a skill that a plan runs.', {
    ...SKILL,
    output: OUTPUT,
  }),
  SkillPlan: object(SkillPlan, 'A skill that runs in an isolate at the edge.', {
    tier: 'A: an isolate at the edge.',
    executor: '',
    egress: 'The hosts that it may reach.',
    secrets: 'Secrets that it may read.',
    credentials: 'Secrets that the edge adds to its requests, so that it never sees them.',
    limits: '',
  }),
  ProcessExecutor: object(
    ProcessExecutor,
    'Which program a tool runs, and which parts its arguments fill in.',
    {
      kind: 'A program.',
      tiers: 'Where it may run, from least to most isolated.',
      argv: 'Its command line: `{name}` fills one element with that argument, `{...name}` one for each item of a list.',
      stdin: 'Standard input: nothing, all arguments as JSON, or one argument.',
      env: 'Its environment.',
      cwd: 'The argument that names the working directory.',
      timeout_ms: 'The argument that may ask for less time.',
      profile: 'A sandbox profile that the workers’ operator has added.',
      allowed_executables: 'The programs that an argument may name.',
    },
  ),
  SkillExecutor: object(SkillExecutor, 'Which tool of which skill runs, and what it may use.', {
    ...SKILL,
  }),
  Credentials: plain(Credentials, 'Secrets that a proxy adds to requests.'),
  Argv: plain(Argv, 'A program and its arguments.'),
  Environment: plain(Environment, 'Environment variables.'),
  HostPattern: plain(HostPattern, 'A host, `host:port`, or `.suffix`, in lower case.'),
  HostPort: plain(HostPort, 'One host and one port.'),
  Outcome: opaque(Outcome, 'How an execution ended, as its executor saw it: `kind`, and what belongs to it.'),
  Limits: object(Limits, 'The most that one call of a program may use.', SPEC_LIMITS),
  SkillLimits: object(SkillLimits, 'The most that one call of a skill may use.', {
    timeout_ms: 'Wall-clock time of the call.',
    fuel: 'Instructions, in units of fuel.',
    memory_bytes: 'Memory of its instance.',
    output_bytes: 'Bytes of its output.',
    net_bytes: 'Bytes of all its requests, both ways.',
    net_connections: 'Its requests.',
  }),
}
