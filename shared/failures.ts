// Every failure that crosses a boundary: its stable code, HTTP status, whose fault it is, whether
// a retry can help, and advice on what to do next. Internal reasons may be richer; a response holds
// only these.

type Entry = {
  readonly status: number
  readonly fault: 'caller' | 'policy' | 'us'
  readonly retry: boolean
  readonly todo: string
  /** For temporary refusals: when to try again. */
  readonly after_s?: number
  /** Also an ending of calls. Reading such a call succeeds, and its result names the code. */
  readonly ends?: true
}

const caller = (status: number, todo: string): Entry => ({ status, fault: 'caller', retry: false, todo })
const policy = (status: number, todo: string): Entry => ({ status, fault: 'policy', retry: false, todo })
const us = (status: number, todo: string): Entry => ({ status, fault: 'us', retry: true, todo })
/** An ending of a call; reading such a call succeeds. */
const ending = (fault: Entry['fault'], todo: string): Entry => ({ status: 200, fault, retry: false, todo })
const temporary = (status: 429 | 503, fault: Entry['fault'], after_s: number, todo: string): Entry => ({
  status,
  fault,
  retry: true,
  after_s,
  todo,
})

export const FAILURES = {
  // Input
  headers_too_large: caller(431, 'send fewer and shorter headers'),
  body_too_large: caller(413, 'send a smaller body; limits are listed in /docs'),
  body_too_slow: { status: 408, fault: 'caller', retry: true, todo: 'send the body without pauses' },
  not_json: caller(400, 'send one JSON object in UTF-8'),
  json_too_deep: caller(400, 'nest less deeply; the limit is 64'),
  json_too_many: caller(400, 'send fewer members and elements'),
  json_duplicate_key: caller(400, 'name each member once'),
  json_unsafe_number: caller(
    400,
    'send integers beyond 2^53, `-0`, and numbers with more digits than a double holds as strings',
  ),
  json_forbidden_key: caller(400, 'rename the member; `__proto__` is refused'),
  json_bad_text: caller(400, 'send valid UTF-8 without U+0000 or lone surrogates'),
  not_acceptable: caller(406, 'send `accept: application/json, text/event-stream`'),
  unsupported_media_type: caller(415, 'send `content-type: application/json`'),
  invalid_request: caller(400, 'correct the fields that `errors` names'),
  invalid_arguments: caller(422, 'correct what `detail` and `errors` name; `GET /v1/tools` shows the schema'),
  invalid_schema: caller(
    422,
    'use a plain JSON Schema 2020-12 without patterns, remote references or unknown formats',
  ),
  invalid_policy: caller(422, 'correct the policy that `errors` names'),
  invalid_skill: caller(
    422,
    'build the module with plain WebAssembly 2.0: no threads, exceptions or garbage collection, within the limits of a skill',
  ),
  skill_conflict: caller(409, 'publish under another version or name; `detail` names the owner of this one'),
  publisher_unknown: caller(
    422,
    'ask an operator to list the publisher’s key (`countersign skill publishers put NAME KEY`), or publish with the key as `pin`',
  ),
  part_denied: policy(
    409,
    'build it without the parts that `detail` names, or ask an operator to remove them from the list of denied parts',
  ),
  key_revoked: caller(
    422,
    'use another key; publish again, under other versions, what the revoked key had signed',
  ),
  tool_breaks_policies: caller(
    409,
    'first store policies that are valid with and without the tool, then change the tool',
  ),
  idempotency_key_reused: caller(409, 'use a new `Idempotency-Key` for a different request'),
  digest_mismatch: caller(422, 'send the bytes whose SHA-256 the path names, in lower-case hex'),
  too_many_files: caller(409, 'create a new run for more files; limits are listed in /docs'),
  storage_full: policy(
    409,
    'wait until ended runs are sealed or files expire, clear the storage of skills, or ask an operator for a larger quota (`storage_bytes` of the tenant, `files_bytes` of an agent)',
  ),
  no_such_file: caller(
    422,
    'upload the file with `PUT /v1/runs/{run}/files/{sha256}`, then propose the call again',
  ),
  // Identity
  unauthenticated: caller(
    401,
    'send `authorization: Bearer <key>` with a key that is neither revoked nor of another tenant',
  ),
  signed_out: caller(401, 'sign in with an operator key'),
  too_many_tries: temporary(429, 'caller', 60, 'wait a minute, then try again'),
  too_many_streams: temporary(429, 'caller', 5, 'close open pages or streams, then try again'),
  bad_signature: caller(401, 'sign the request as an enrolled worker; run `countersign-worker doctor`'),
  slack_refused: caller(
    401,
    'if only an old message is refused, use the latest one; otherwise compare `signing_secret`, `app_id` and `team_id` of the channel with the Slack app, and check the clock of the edge',
  ),
  clock_skew: caller(401, 'sign again with the time of the `date` header'),
  stale_epoch: caller(401, 'sign again, with a nonce that begins with the `epoch` of this response'),
  replayed: caller(401, 'sign each request separately; this one was seen before'),
  forbidden: policy(403, 'ask an operator for a policy that permits this action'),
  cross_origin: caller(403, 'answer from the page itself'),
  foreign_origin: caller(
    403,
    'send MCP requests from a program, to the address in `PUBLIC_URL` of the edge; pages of other origins are refused',
  ),
  tenant_suspended: policy(403, 'ask the operator of the installation to resume the tenant'),
  not_found: caller(
    404,
    'check the id; ids of another tenant, or of something that was removed, are not found',
  ),
  method_not_allowed: caller(405, 'use a method that the `allow` header lists'),
  // The life of a call
  denied: { ...policy(403, 'read `decision.reason`; ask an operator if it should be allowed'), ends: true },
  removed: caller(
    410,
    'nothing to do: the retention rule of the tenant has removed it for good; its digests are still in the call and its attestation',
  ),
  held: policy(
    409,
    'ask an operator of the tenant to lift its legal holds (`countersign holds list`), then try again',
  ),
  already_ended: caller(409, 'read the call; it has ended and can no longer change'),
  already_claimed: caller(409, 'drop it; another worker has it'),
  already_answered: caller(409, 'read the approval; it has been answered'),
  worker_in_use: caller(
    409,
    'run one process per worker: enrol the other host as a separate worker (`countersign workers enrol`), and revoke this worker if nobody knows of a second host',
  ),
  not_claimable: caller(409, 'drop it; the call is not waiting for a worker'),
  stale_fence: caller(409, 'drop the result; the call has moved on'),
  once_only: policy(403, 'answer for this call only, or for a shorter time if `detail` says so'),
  surer_only: policy(403, 'answer in the console or on the command line, with your own key'),
  edit_too_wide: policy(
    422,
    'ask for less than the agent did, or deny with a reason that says what to propose instead',
  ),
  outdated: caller(
    409,
    'look at the approval again and answer with its `digest`; an operator has changed the arguments',
  ),
  approval_expired: { ...caller(410, 'ask the agent to propose the call again'), ends: true },
  approval_cancelled: caller(410, 'nothing to do: the call was cancelled, so it will not run'),
  link_invalid: caller(401, 'open the link from the message again, unchanged'),
  link_revoked: caller(
    410,
    'answer in the console or on the command line; links to this approval were revoked',
  ),
  run_ended: caller(409, 'create a new run'),
  run_cancelled: caller(409, 'create a new run'),
  too_many_pending: temporary(
    429,
    'policy',
    30,
    'try again after an operator has answered one of the approvals that this run waits for',
  ),
  queue_full: temporary(
    503,
    'us',
    1,
    'propose it again after `retry-after`; if this persists, start more workers in the pool, or run fewer skill calls at once',
  ),
  budget_spent: ending('policy', 'create a new run, or ask an operator for a larger budget'),
  policy_error: ending('policy', 'ask an operator to correct the policy that fails'),
  egress_denied: ending('policy', 'name only hosts that the tool lists'),
  secret_in_run_folder: ending(
    'policy',
    'register the tool with `"workspace": "call"`, or have its proxy add the value (`credentials`)',
  ),
  workspace_scope_denied: ending('policy', 'name a folder inside the workspace: relative, without `..`'),
  attestation_invalid: caller(
    422,
    'settle with the statement that the grant describes, signed by the claiming worker',
  ),
  proof_invalid: caller(422, 'send current results of this worker’s canaries, signed with its key'),
  grant_invalid: caller(422, 'refuse the call; its grant does not match its plan or arguments'),
  conflict: caller(409, 'do as `detail` says, or read the current state and try again'),
  version_conflict: caller(
    412,
    'read the active version, apply your change to it, and send it with the `ETag` of that response',
  ),
  delegate_refused: caller(422, 'name another operator whom policy permits to answer approvals'),
  channel_refused: caller(422, 'correct what `detail` says, and send the whole channel again'),
  calls_quota_exceeded: policy(
    403,
    'propose it again after midnight UTC, or ask the operator of the installation for a higher `calls_per_day`',
  ),
  workers_quota_exceeded: policy(
    409,
    'revoke a worker first, or ask the operator of the installation for a higher quota of `workers`',
  ),
  no_export_target: caller(409, 'set one: `countersign export-target set`'),
  export_refused: caller(422, 'correct what `detail` names, and set the export target again'),
  export_mismatch: caller(
    409,
    'find out who else writes to the bucket, because the edge never stores different bytes under one name; then set an export target with another `prefix`',
  ),
  export_unavailable: temporary(
    503,
    'us',
    5,
    'try again; if this persists, check that the store is up and can be reached from the edge',
  ),
  limit_reached: policy(409, 'remove something first; limits are listed in /docs'),
  enrolment_invalid: caller(401, 'ask an operator for a new enrolment token; each works once'),
  // Execution
  disabled: policy(
    200,
    'use another worker, or ask the worker’s operator to add the tier to `tiers` in its configuration',
  ),
  unsupported_platform: policy(200, 'run it on a Linux worker, x86_64 or aarch64'),
  invalid_input: caller(200, 'correct what `detail` names; it can’t be passed to a process'),
  quota_exceeded: caller(200, 'do less, or raise the limit that `outcome` or `detail` names'),
  timed_out: caller(200, 'raise the limit or do less'),
  invalid_output: caller(
    200,
    'correct the tool or its `output_schema`; `error.detail` says where they differ, and the output is unchanged',
  ),
  skill_error: caller(200, 'read `error.detail`: the skill refused the arguments or failed'),
  skill_disabled: policy(200, 'ask an operator to enable the skill again, then propose the call again'),
  tool_changed: {
    ...policy(
      409,
      'ask an operator to look at what changed (`countersign upstreams diff`) and to accept it; other tools of the upstream still run',
    ),
    ends: true,
  },
  upstream_error: caller(
    200,
    'read `error.detail` and the output: the upstream refused the call or its tool failed',
  ),
  upstream_wants_input: caller(
    200,
    'use a tool that asks for nothing during a call: Countersign does not answer elicitation, sampling or roots of an upstream',
  ),
  upstream_unavailable: us(
    200,
    'nothing was executed; propose it again later, or ask an operator to look at `countersign upstreams show`',
  ),
  no_answer: {
    status: 200,
    fault: 'us',
    retry: false,
    todo: 'check at the upstream whether the tool ran before you try again: it received the call and gave no usable answer',
  },
  capability_denied: caller(
    200,
    'declare the capability in the manifest and publish again; the call was not granted it',
  ),
  spawn_failed: caller(
    200,
    'name an executable program that exists in the sandbox; stderr names the one that could not be started',
  ),
  runtime_failure: caller(200, 'read stderr and `outcome`: the program itself failed, or a signal ended it'),
  cancelled: caller(
    200,
    'nothing to do: somebody asked to cancel it; if it had begun, its output up to then is kept',
  ),
  sandbox_unavailable: us(200, 'run `countersign-worker doctor` on the host'),
  sandbox_failed: us(
    200,
    'try again; if it fails again, run `countersign-worker doctor` on the host, or for a skill report `detail`',
  ),
  restored: {
    status: 200,
    fault: 'us',
    retry: false,
    todo: 'check what the tool did before you propose it again: it may have run between the backup and the restore',
  },
  worker_lost: us(200, 'check what the tool did before trying again: its outcome is unknown'),
  workspace_lost: {
    status: 200,
    fault: 'us',
    retry: false,
    todo: 'create a new run and start there: the files that earlier calls of this run left on its worker are lost',
  },
  never_claimed: us(200, 'propose it again; if it needs a worker, first check that one runs in its pool'),
  // Us
  log_behind: temporary(503, 'us', 1, 'ask again in a moment; the log gets each end shortly after the call'),
  unavailable: temporary(503, 'us', 1, 'try again shortly'),
  archive_damaged: {
    status: 500,
    fault: 'us',
    retry: false,
    todo: 'restore a backup (docs/operations.md)',
  },
  internal: us(500, 'report it with the `request_id` of this response'),
} as const satisfies Record<string, Entry>

export type Code = keyof typeof FAILURES
export const entryOf = (code: Code): Entry => FAILURES[code]

/**
 * One refusal. `detail` is written for the person who fixes it and never holds a secret or another
 * tenant's name.
 */
export type Failure = {
  readonly code: Code
  readonly detail: string
  readonly errors?: readonly FieldError[]
  /** Advice for this very case, if the code's own advice is too general. */
  readonly todo?: string
  /** The prefix that nonces in workers' signatures need. */
  readonly epoch?: string
}
/** `hint`: the probable intention, if one is known. */
export type FieldError = { readonly at: string; readonly message: string; readonly hint?: string }

export const adviceOf = ({ code, todo }: Failure): string => todo ?? FAILURES[code].todo

export const failure = (code: Code, detail: string, errors?: readonly FieldError[]): Failure =>
  errors === undefined ? { code, detail } : { code, detail, errors }
