// Every bound on input, in one table, each with its reason. Code reads its bounds from here and
// nowhere else.

import { KEY_LIMITS } from './key-limits.ts'
import { MCP_LIMITS } from './mcp-limits.ts'
import { POLICY_LIMITS } from './policy-limits.ts'
import { TOKEN_LIMITS } from './token-limits.ts'
import { UPSTREAMS } from './upstream-limits.ts'
import { WITNESS_LIMITS } from './witness-limits.ts'

const KiB = 1024
const MiB = 1024 * KiB

export const LIMITS = {
  /** A request body. Arguments of real tools are far smaller; a stored value has at most 2 MB. */
  body_bytes: 1 * MiB,
  /**
   * A body that is read before its sender is authenticated. Most calls are smaller, so they need
   * one request to the tenant.
   */
  unknown_body_bytes: 16 * KiB,
  /** How long a body may take to arrive. */
  body_ms: 10_000,
  /** Call arguments after parsing; they travel in one claim beside the plan. */
  arguments_bytes: 512 * KiB,
  /** Nesting of JSON. `JSON.stringify` overflows its stack near 10,000 levels; documents need far fewer. */
  json_depth: 64,
  /** Members and elements of one JSON document: each one is also hashed and seen by policies. */
  json_nodes: 50_000,
  /** A file of evidence (bundle, journal, keys) that is verified offline: arguments, plan, envelopes. */
  evidence_bytes: 16 * MiB,
  evidence_nodes: 500_000,
  /** Entries of a run's journal in a bundle. Above that, the bundle leaves out those of other calls. */
  bundle_entries: 200,
  /**
   * A tool's name. The function calling of model providers accepts 64 characters without dots, and
   * clients put a prefix of their own before it.
   */
  tool_name_chars: 50,
  /** A tool's JSON Schema. */
  schema_bytes: 64 * KiB,
  /**
   * Subschemas and literal values that one validation visits. Each reference counts again, because
   * references multiply.
   */
  schema_steps: 10_000,
  /**
   * The cost of validating one value, in units of about 25 ns (shared/schema/validation-cost.ts):
   * 50 ms of the only thread.
   */
  schema_effort: 2_000_000,
  /** Up to this cost, validation reports all mistakes; above it, only the first. */
  schema_effort_reporting: 100_000,
  /** One validation message. It may quote a name or a value of the schema. */
  schema_message_chars: 300,
  /** Items of a list that must be unique: each pair is compared. */
  schema_unique_items: 1_000,
  /** All headers of a request together. A signed request has less than 2 KiB of headers. */
  headers_bytes: 32 * KiB,
  /** AuthZEN: costly evaluations in one request, a name in one, a request id that we send back. */
  evaluations: 20,
  evaluation_name_chars: 256,
  request_id_chars: 255,
  /**
   * `Prefer: wait=N`. Intermediaries cut connections after a minute; clients that wait longer poll
   * or stream.
   */
  wait_s: 60,
  /** A hook's wait for an approver: a program whose hook times out goes on, maybe after 30 s. */
  hook_wait_s: 20,
  hook_tool_chars: 128,
  /** An unanswered approval expires after this time, and the call is denied. */
  approval_ttl_s: 15 * 60,
  approval_ttl_max_s: 24 * 3600,
  /** Edits of one approval's arguments, and the changed places that are listed for one edit. */
  edits: 8,
  edit_changes: 32,
  /** Arguments that the link page can edit, and the form that carries them. */
  page_edit_chars: 8_000,
  page_edit_bytes: 64 * KiB,
  /** The old or new value of one changed place. */
  edit_chars: 400,
  /**
   * The longest standing approval, even one for a session: nobody should be held to an answer that
   * they have forgotten.
   */
  standing_s: 12 * 3600,
  /** Standing approvals of a tenant: a list that a person can still read. */
  standing: 500,
  /**
   * Arguments on an approval card. Nobody reads more, and a longer text could hide something in its
   * middle.
   */
  card_chars: 64 * KiB,
  /** The part of a longer text that one page shows; further pages show the rest. */
  page_chars: 128 * KiB,
  /** The reason of an approver, or of an agent for its proposal; shown and journalled. */
  reason_chars: 1_000,
  /** A granted call that no worker claims expires after this time. */
  claim_window_ms: 15 * 60_000,
  /** A running call whose worker sends no heartbeat for this long ends `indeterminate`. */
  lease_ms: 12_000,
  /** Interval of a worker's heartbeats. Three may be lost before a lease ends. */
  heartbeat_ms: 3_000,
  /**
   * How long a backup may stop the edge. A third of a lease, so that no call loses its worker by it.
   */
  backup_pause_ms: 4_000,
  /** Restores whose reasons no edge has journalled yet. Each start of the edge gets them all. */
  restores_unjournalled: 8,
  /**
   * A run is sealed when it has ended and rested for this long; the operator can set it. Most clients
   * that ask again do so within minutes.
   */
  seal_after_s: 3600,
  /** Objects of one process that seal at a time; how long a lost one counts; when the next asks again. */
  sealings_at_once: 4,
  sealing_ms: 60_000,
  sealing_wait_ms: 10,
  /** A part of an archive entry before compression, unless one row is larger. Between parts others run. */
  archive_part_chars: 64 * KiB,
  /** The compressed rows of one run: a read may need all. An object with a larger run is not sealed. */
  sealed_run_bytes: 8 * MiB,
  /** Compressed parts of sealed runs that an isolate caches. An isolate of Cloudflare has 128 MiB. */
  sealed_held_bytes: 24 * MiB,
  /** Decompressed parts of sealed runs that an isolate caches. */
  sealed_opened_bytes: 8 * MiB,
  /**
   * Exports: a part of the export of a run, unless one call is larger; the edge makes it without a
   * pause, in a few milliseconds. Then the folder in the bucket, the time for one request to the store,
   * the attempts, the first pause between them, which doubles (together they take less time than a
   * client waits), and how much of a refusal is read.
   */
  export_part_chars: 1 * MiB,
  export_prefix_chars: 256,
  export_ms: 6_000,
  export_tries: 4,
  export_pause_ms: 200,
  export_answer_bytes: 4 * KiB,
  /** The last line of a part. */
  export_end_bytes: 256,
  /** The most days for which a retention rule keeps something; without a number it is for ever. */
  keep_days: 36_500,
  /** A day of a retention rule. */
  retention_day_ms: 86_400_000,
  /** Legal holds of a tenant: a list that a person can still read. */
  holds: 1_000,
  /** Objects of runs that an archive asks in one go to remove what is due, one after the other. */
  removals_at_once: 20,
  /** Calls whose outputs or arguments one transaction removes. */
  removal_calls: 50,
  /** When an archive asks an object again that could not remove what is due. */
  removal_retry_ms: 3_600_000,
  /** The manifest of a backup: about 250 bytes for each file, so a million files. */
  backup_manifest_bytes: 256 * MiB,
  /**
   * A worker's next process serves after its predecessor was silent for this long or announced its
   * stop. Two heartbeats may be lost.
   */
  process_silence_ms: 7_000,
  /** A process may repeat a claim whose answer was lost for this long. Workers stop asking then. */
  claim_again_ms: 60_000,
  ...KEY_LIMITS,
  /** Time after the grant's deadline for a settlement to arrive (kill, collect, sign, send). */
  settle_grace_ms: 10_000,
  /** Age of a worker's signed request, and the tolerated clock difference. */
  signature_age_s: 60,
  /** Tolerance for times that a worker attests. It knows the edge's clock to within 1 s. */
  clock_slack_ms: 5_000,
  /** A worker silent for this long loses its run folders. A restart or an upgrade takes less. */
  folder_silence_ms: 5 * 60_000,
  /**
   * How often a worker proves its sandboxes again, and how long the edge trusts a proof. Two proofs
   * may be lost.
   */
  proof_every_ms: 10 * 60_000,
  proof_ms: 31 * 60_000,
  /**
   * Disk space of one worker for all run folders, and the space that they leave free. Its operator
   * can set both.
   */
  run_folders_bytes: 8 * 1024 * MiB,
  disk_free_bytes: 512 * MiB,
  /** A worker's enrolment token. */
  enrolment_ttl_s: 15 * 60,
  /** argv: the kernel takes 131,071 bytes an element and about 2 MB in all. */
  argv_items: 256,
  argv_item_bytes: 128 * KiB - 1,
  argv_bytes: 1 * MiB,
  /**
   * The working directory inside the workspace. On the host it is part of a longer path, and a path
   * has at most 4,096 bytes.
   */
  cwd_bytes: 1 * KiB,
  /** Output that is kept of one stream of a call. The digest covers all output. */
  output_bytes: 1 * MiB,
  /** A settlement: both streams in base64 and the statement. */
  settlement_bytes: 3 * MiB + 512 * KiB,
  /** One chunk of streamed output. */
  output_chunk_bytes: 256 * KiB,
  /** One piece of live output for a subscriber. A slow one has one piece in the edge's memory. */
  output_piece_bytes: 64 * KiB,
  /**
   * Input files: size of one, number for a call and a run, and their paths. An upload holds one
   * file in memory once.
   */
  file_bytes: 16 * MiB,
  call_files: 64,
  run_files: 256,
  run_files_bytes: 64 * MiB,
  /**
   * Runs that share one object (edge/run/object/object-store.ts). An object of Cloudflare holds 10 GB, and
   * such a run takes 10 to 15 KiB. Further runs get an object each.
   */
  runs_per_object: 100_000,
  file_path_bytes: 512,
  file_path_depth: 16,
  /**
   * Files are stored and sent to workers in parts of this size; a Durable Object value has at most
   * 2 MB.
   */
  file_part_bytes: 1 * MiB,
  /**
   * How long an uploaded file is kept after its last use: while no call names it, and once a call
   * names it (longer than calls live).
   */
  file_unnamed_ms: 24 * 3600_000,
  file_named_ms: 30 * 24 * 3600_000,
  /**
   * Files of all runs of one agent (operators can set less), and all that a tenant stores: disks are
   * finite.
   */
  agent_files_bytes: 1024 * MiB,
  tenant_storage_bytes: 16 * 1024 * MiB,
  /** Time for fetching a call's input files, before the call's own time begins. */
  files_ms: 60_000,
  /** Tools and principals of a tenant, so that its directory fits into one message. */
  tools: 1_000,
  principals: 1_000,
  ...POLICY_LIMITS,
  /** Calls of one run, regardless of its budget. */
  calls_per_run: 1_000_000,
  /** Pending approvals of one run: a flood of cards is an attack on the approver (P12). */
  pending_approvals_per_run: 50,
  /**
   * Open calls of one session, if policy counts by session: each new call asks the runs of all of
   * them.
   */
  session_open_calls: 1_000,
  /**
   * Calls that wait for a worker, in one pool and of one run. Above that, proposals are refused
   * until some have been claimed. A full pool still admits an agent that has less than an equal
   * share.
   */
  waiting_calls_per_pool: 10_000,
  waiting_calls_per_run: 1_000,
  /**
   * Skill calls that wait for a slot: in all, per tenant and per agent. Each keeps an object open
   * (0.4 MB, three files).
   */
  waiting_skill_calls: 1_024,
  waiting_skill_calls_per_tenant: 512,
  waiting_skill_calls_per_agent: 256,
  /**
   * Doorbells of one agent in Redis at a time: another agent's first call waits behind at most
   * these. Enough to keep a worker busy.
   */
  doorbells_per_agent: 8,
  /**
   * An explanation of a denial: facts of one alternative, alternatives shown, and alternatives that
   * the engine tries.
   */
  explanation_facts: 3,
  explanation_changes: 3,
  explanation_tries: 16,
  /** All requests that the engine evaluates for one explanation: about 0.1 ms for each KiB. */
  explanation_tried_chars: 1 * MiB,
  /** Changes that one alternative may ask for. One fact that is a list can need several. */
  explanation_flips: 9,
  /** The search for alternatives: steps in all, and alternatives that are kept at each step. */
  explanation_steps: 3_000,
  explanation_width: 16,
  /** Members of a list that are tried if any would do, and members that may be needed together. */
  explanation_members: 3,
  /** A value in an explanation. A reader who can change a longer one knows it. */
  explanation_chars: 120,
  /**
   * A longer value is given by its length only, because every value that is shown is searched for
   * secrets first.
   */
  explanation_read_chars: 4_096,
  /**
   * A console session: idle time, longest time, and sessions of one operator, of which the oldest
   * ends.
   */
  console_idle_ms: 30 * 60_000,
  console_ms: 12 * 3600_000,
  console_sessions: 16,
  ...TOKEN_LIMITS,
  /** Wrong secrets for one key in a minute. After those, even the right one has to wait. */
  sign_in_tries: 10,
  /** Channels of a tenant. Each approval makes one message for each channel. */
  channels: 16,
  channel_url_chars: 2_048,
  /** Signing keys of a channel at the same time, so that keys can be rotated. */
  channel_keys: 4,
  /** The longest absence with a delegate. A person who has left should not stay an operator. */
  delegation_s: 90 * 24 * 3600,
  /** Recipients of one channel. */
  channel_recipients: 64,
  /** Slack users that one channel maps to operators. */
  channel_users: 256,
  /** Time for one delivery attempt, and concurrent attempts of one channel. */
  delivery_ms: 10_000,
  deliveries_at_once: 8,
  /**
   * Delivery attempts and the pauses between them: half an hour in all, twice the default life of
   * an approval.
   */
  delivery_tries: 12,
  delivery_pause_ms: 2_000,
  delivery_pause_max_ms: 5 * 60_000,
  /**
   * A provider's answer that an adapter reads. Slack's repeats the message, with six bytes for a
   * letter outside ASCII.
   */
  delivery_answer_bytes: 256 * KiB,
  /** One text in a message; the page has the whole. Receivers of webhooks expect under 20 kB. */
  message_chars: 4_000,
  /**
   * The same in Slack, which takes 3,000 characters in one text. The difference is for the note
   * that the text was cut.
   */
  slack_chars: 2_800,
  /**
   * Slack's request when a button is pressed. It repeats the message, with nine bytes for a letter
   * outside ASCII.
   */
  slack_body_bytes: 512 * KiB,
  /**
   * Age of a request signed by Slack, and the tolerated clock difference, as Slack's documentation
   * recommends.
   */
  slack_age_s: 5 * 60,
  /**
   * We acknowledge Slack's request after this time even if the answer is still being processed:
   * Slack waits for 3 s.
   */
  slack_ack_ms: 2_000,
  /** The reason that an outbox client gives for an undelivered message. Operators read it. */
  delivery_why_chars: 200,
  /**
   * Events of one agent that its webhook's outbox holds: the oldest settled ones make room, and if
   * all still wait, later events are not sent. Concurrent attempts for all agents of a tenant.
   */
  agent_events: 2_000,
  agent_deliveries_at_once: 32,
  /** How long an agent's webhook is signed with the former secret too after a rotation. */
  webhook_overlap_ms: 24 * 3_600_000,
  /** How long records of sent messages are kept after their approval has ended. */
  delivery_days: 7,
  /**
   * How often a console's live list checks its session, and the shortest time between two updates.
   */
  console_wait_ms: 15_000,
  console_pause_ms: 250,
  /**
   * Open live pages of one link or session, and of a tenant. A page above the limit does not update
   * until it is reloaded.
   */
  streams_each: 8,
  streams_tenant: 512,
  /**
   * Subscribers to the calls of one run. One principal or console session may have `streams_each`
   * of them.
   */
  streams_run: 64,
  /** Identical approvals that one answer covers. Each is a transition in its own run. */
  answers_at_once: 200,
  /**
   * Secrets of a tenant. The directory carries them sealed, and each text shown to people is
   * searched for all of them.
   */
  secrets: 100,
  secret_chars_min: 8,
  /**
   * Former values of replaced or removed secrets that are still masked in old records; the newest
   * are kept.
   */
  former_secrets: 100,
  secret_chars: 8_192,
  secret_tools: 100,
  secret_hosts: 16,
  /** Skills of a tenant, their versions, publishers and publishers' keys. */
  skills: 500,
  skill_versions: 100,
  publishers: 100,
  publisher_keys: 4,
  skill_tools: 16,
  /** A skill's manifest with its tools and schemas. A list page reads a hundred of them. */
  skill_manifest_bytes: 256 * KiB,
  /** A component in base64 in a signed payload in base64. */
  skill_package_bytes: 8 * MiB,
  /**
   * A package's bill of materials and its entries, its provenance, and one name or version in
   * either.
   */
  skill_sbom_bytes: 256 * KiB,
  skill_parts: 1_000,
  skill_provenance_bytes: 64 * KiB,
  skill_told_chars: 512,
  /** Patterns of denied components. Each is compared with each component of each listed version. */
  denied_parts: 200,
  /** Faults of a package that one answer lists. */
  skill_faults: 32,
  /**
   * A skill's component, and the code that an isolate loads. From Rust it has about 100 KB, with a
   * JavaScript engine 0.8 MB.
   */
  skill_component_bytes: 4 * MiB,
  skill_code_bytes: 12 * MiB,
  /**
   * A component's sections other than its code: types, imports and links. A type's text includes
   * all its parts.
   */
  skill_described_bytes: 16 * KiB,
  skill_types: 64,
  skill_type_chars: 400,
  skill_name_bytes: 128,
  skill_modules: 16,
  /**
   * Cost of compiling a module, in values that are live where control flow splits or joins
   * (edge/skills/metering/compile-cost.ts).
   */
  skill_effort: 500_000,
  skill_effort_a_byte: 3,
  skill_tables: 16,
  /**
   * Of all modules of a skill: each export becomes a function for each call, and table elements are
   * set up before fuel is counted.
   */
  skill_exports: 1_000,
  skill_element_bytes: 64 * KiB,
  /** A skill's code is stored in parts of this size; a Durable Object value has at most 2 MB. */
  skill_part_bytes: 1 * MiB,
  /**
   * A skill's first slice of fuel; how long a later slice should take beside other calls and alone
   * (a host call waits for about ten slices); and the fuel for code that can't be suspended.
   */
  skill_slice_fuel: 500_000,
  skill_slice_ms: 2,
  skill_slice_alone_ms: 10,
  skill_alone_fuel: 1_000_000,
  /** Fuel for one host call, in addition to that for its bytes. */
  skill_host_call_fuel: 2_000,
  /**
   * A text that a skill returns or passes to the host. We read no more of it: the edge decodes it,
   * and 1 MiB of invalid text takes 100 ms.
   */
  skill_text_bytes: 1 * MiB,
  skill_asked_text_bytes: 128 * KiB,
  skill_text_byte_fuel: 10,
  /**
   * A skill's request to the host without its body: large enough that the host's own checks refuse
   * first, with a better message.
   */
  skill_asked_bytes: 512 * KiB,
  /** The longest slice of fuel: a cheap instruction mix may be followed by an expensive one. */
  skill_slice_fuel_most: 10_000_000,
  /**
   * A skill's own failure text before masking. Long enough that a secret at its cut end is still
   * found.
   */
  skill_detail_chars: 40 * KiB,
  /** Memory of ended calls that an isolate may hold before it forces a garbage collection. */
  skill_sweep_bytes: 64 * MiB,
  /** Time for a stopped call to report the fuel it used. */
  skill_farewell_ms: 200,
  skill_log_chars: 64 * KiB,
  /**
   * Extra log text that is kept until masking, so that a secret in its longest encoding is found at
   * the cut end.
   */
  skill_log_spare_chars: 32 * KiB,
  /**
   * A skill's storage. A value is copied whole into the skill's memory; 500 full skills fit on a
   * small disk.
   */
  skill_key_chars: 256,
  skill_value_bytes: 256 * KiB,
  skill_keys: 10_000,
  skill_storage_bytes: 8 * MiB,
  /** A skill's storage counts towards the tenant's quota in steps, so that few writes ask the tenant. */
  skill_storage_step_bytes: 64 * KiB,
  /** Keys in one list: at most 256 KiB. */
  skill_keys_listed: 1_000,
  /**
   * A skill's messages to people: length, number in one call, and number in an hour. People who get
   * too many read none (P12).
   */
  notice_chars: 2_000,
  notices_per_call: 5,
  notices_per_hour: 60,
  /** Uses of each remote host function in one call, and the URL and headers of one request. */
  skill_host_calls: 1_000,
  /** The harness of a call waits for each answer; an isolate that a skill controls might not. */
  skill_requests_at_once: 1,
  skill_url_chars: 8 * KiB,
  skill_header_chars: 16 * KiB,
  /**
   * Trials of an unpublished skill: trials in one request, their fuel and time together, recorded
   * answers of one trial, and their texts.
   */
  trials: 32,
  trials_fuel: 10_000_000_000,
  trials_ms: 60_000,
  trial_answers: 64,
  trial_text_chars: 256 * KiB,
  ...UPSTREAMS,
  /** One page of a list. */
  page: 100,
  ...MCP_LIMITS,
  ...WITNESS_LIMITS,
  /**
   * Rows that one page of a list of calls compares with a second filter: a few milliseconds of the
   * only thread.
   */
  list_scan: 10_000,
} as const

/** Limits of a call if neither tool, agent nor run sets lower ones. */
export const DEFAULT_LIMITS = {
  timeout_ms: 30_000,
  cpu_ms: 10_000,
  memory_bytes: 256 * MiB,
  pids: 128,
  open_files: 256,
  file_bytes: 64 * MiB,
  workspace_bytes: 64 * MiB,
  workspace_inodes: 16_384,
  output_bytes: 64 * KiB,
  net_bytes: 256 * MiB,
  net_connections: 1_000,
} as const

/** Upper bounds of those limits. */
export const MAX_LIMITS = {
  timeout_ms: 30 * 60_000,
  cpu_ms: 30 * 60_000,
  memory_bytes: 16 * 1024 * MiB,
  pids: 4_096,
  open_files: 65_536,
  file_bytes: 4 * 1024 * MiB,
  workspace_bytes: 4 * 1024 * MiB,
  /** The disk watch visits each of them repeatedly while a call runs. */
  workspace_inodes: 262_144,
  output_bytes: LIMITS.output_bytes,
  net_bytes: 64 * 1024 * MiB,
  /** Includes refused connections: each is an entry in the worker's memory while the call runs. */
  net_connections: 10_000,
} as const

/**
 * Default and highest limits of a skill. 100 million units of fuel are 5 to 50 ms of compiled
 * programs, and 2 s of the worst code; other calls wait for one slice at most.
 */
export const DEFAULT_SKILL_LIMITS = {
  timeout_ms: 5_000,
  fuel: 500_000_000,
  memory_bytes: 16 * MiB,
  output_bytes: 64 * KiB,
  table_elements: 10_000,
  net_bytes: 1 * MiB,
  net_connections: 8,
} as const
export const MAX_SKILL_LIMITS = {
  /** Less than a lease: a skill's call has no heartbeats, only the run that waits for it. */
  timeout_ms: 10_000,
  fuel: 10_000_000_000,
  memory_bytes: 64 * MiB,
  output_bytes: LIMITS.output_bytes,
  table_elements: 10_000,
  /** These bytes are in the edge's memory while the skill reads them. */
  net_bytes: 8 * MiB,
  net_connections: 32,
} as const

/**
 * A run's default budget. 4 calls and 750 ms, as in an earlier system, were too few for its users.
 */
export const DEFAULT_BUDGET = {
  max_calls_per_run: 96,
  execution_timeout_ms: 120_000,
  max_denied_per_run: 24,
} as const
export const MAX_BUDGET = {
  max_calls_per_run: 1_000_000,
  execution_timeout_ms: MAX_LIMITS.timeout_ms,
  max_denied_per_run: 1_000_000,
} as const
