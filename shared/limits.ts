// Every bound on input, in one table, each with its reason. Code reads a bound from here and from nowhere else.

const KiB = 1024
const MiB = 1024 * KiB

export const LIMITS = {
  /** A request body. Arguments of real tools stay far below; a Durable Object value ends at 2 MB. */
  body_bytes: 1 * MiB,
  /** A body that is read before anybody knows who sends it. Calls are smaller, so that most requests ask the tenant once. */
  unknown_body_bytes: 16 * KiB,
  /** How long a body may take to arrive. */
  body_ms: 10_000,
  /** Call arguments after parsing; they travel in one claim beside the plan. */
  arguments_bytes: 512 * KiB,
  /** Nesting of JSON. `JSON.stringify` overflows its stack near 10,000; nobody means more than this. */
  json_depth: 64,
  /** Members and elements of one JSON document: parsing is linear, hashing and policy are not free. */
  json_nodes: 50_000,
  /** A file of evidence (bundle, journal, keys) that is verified offline: the arguments, the plan made of them, and two envelopes. */
  evidence_bytes: 16 * MiB,
  evidence_nodes: 500_000,
  /** A tool's JSON Schema. */
  schema_bytes: 64 * KiB,
  /** Subschemas that one evaluation of it visits, and values it compares with, as often as they are referred to: references multiply. */
  schema_steps: 10_000,
  /** What holding one value against it may take, in some 25 ns of the one thread that there is (shared/schema-effort): 50 ms. */
  schema_effort: 2_000_000,
  /** As long as it takes no more than this, all that is wrong is looked for, and not the first thing alone. */
  schema_effort_telling: 100_000,
  /** What is told of one place that does not fit: a value of the schema, or a name, may stand in it. */
  schema_told_chars: 300,
  /** Items of a list that must be unique: each is held against each other. */
  schema_unique_items: 1_000,
  /** All headers of a request together; a signed one has less than 2 KiB. */
  headers_bytes: 32 * KiB,
  /** `Prefer: wait=N`: past a minute, intermediaries cut the connection; poll or stream instead. */
  wait_s: 60,
  /** An approval nobody answered is a denial after this long. */
  approval_ttl_s: 15 * 60,
  approval_ttl_max_s: 24 * 3600,
  /** How often an approval's arguments are changed, and the places of one change that are told. */
  edits: 8,
  edit_changes: 32,
  /** Arguments that the link page offers for change, and a form that carries them. */
  page_edit_chars: 8_000,
  page_edit_bytes: 64 * KiB,
  /** One side of such a place. */
  edit_chars: 400,
  /** How long an answer may stand for further calls; one for a session too: what nobody remembers having said should not be acted on. */
  standing_s: 12 * 3600,
  /** Standing answers of a tenant: one list, which somebody can read. */
  standing: 500,
  /** Arguments as an approver is shown them: nobody reads more, and a longer text hides things in its middle. */
  card_chars: 64 * KiB,
  /** What a page unfolds of a longer text at once; the rest is on further pages. */
  page_chars: 128 * KiB,
  /** An approver's reason, shown and journalled. */
  reason_chars: 1_000,
  /** A granted call that no worker claims lapses after this long. */
  claim_window_ms: 15 * 60_000,
  /** A running call whose worker is silent for this long ends `indeterminate`. */
  lease_ms: 12_000,
  /** How often a worker speaks for its running calls; three may be lost before the lease is. */
  heartbeat_ms: 3_000,
  /** A worker's next process serves once its predecessor was silent for this long or announced its stop. Allows two lost heartbeats. */
  process_silence_ms: 7_000,
  /** How long a process may repeat a claim whose answer was lost; workers stop asking then. */
  claim_again_ms: 60_000,
  /** How long a settlement may follow the deadline of its grant (kill, collect, sign, send). */
  settle_grace_ms: 10_000,
  /** Age of a signed worker request, and how far a clock may stand off. */
  signature_age_s: 60,
  /** Tolerance for the times that a worker attests: it knows the edge's clock within 1 s of an answer. */
  clock_slack_ms: 5_000,
  /** How long a worker may be silent before the folders of runs on it are given up: a restart or an upgrade takes less. */
  folder_silence_ms: 5 * 60_000,
  /** How often a worker tries its sandboxes anew, and how long the edge goes by what it said of them: two may be lost. */
  proof_every_ms: 10 * 60_000,
  proof_ms: 31 * 60_000,
  /** Disk of one worker that the folders of runs may take together, and that they leave free. Its operator may set both. */
  run_folders_bytes: 8 * 1024 * MiB,
  disk_free_bytes: 512 * MiB,
  /** A worker's enrolment token. */
  enrolment_ttl_s: 15 * 60,
  /** argv as the kernel takes it: 131,071 bytes an element, about 2 MB in all; we stay below both. */
  argv_items: 256,
  argv_item_bytes: 128 * KiB - 1,
  argv_bytes: 1 * MiB,
  /** The folder in the workspace where a call begins: on the host it lies below others, and a path ends at 4,096 bytes. */
  cwd_bytes: 1 * KiB,
  /** Output kept of one stream of one call; the digest covers all of it. */
  output_bytes: 1 * MiB,
  /** A settlement: both streams in base64, and the statement. */
  settlement_bytes: 3 * MiB + 512 * KiB,
  /** One chunk of streamed output. */
  output_chunk_bytes: 256 * KiB,
  /** What a follower of a call is told of one stream at once: what is held in memory for one that reads slowly, once. */
  output_piece_bytes: 64 * KiB,
  /** Files that calls bring: one of them, those of a call and of a run, and their paths. One is held in memory once while it is put. */
  file_bytes: 16 * MiB,
  call_files: 64,
  run_files: 256,
  run_files_bytes: 64 * MiB,
  file_path_bytes: 512,
  file_path_depth: 16,
  /** How a file is kept and handed to a worker; a Durable Object value ends at 2 MB. */
  file_part_bytes: 1 * MiB,
  /** How long a file stays that no call has named, and one that a call did, which is longer than calls live; each from the last time. */
  file_unnamed_ms: 24 * 3600_000,
  file_named_ms: 30 * 24 * 3600_000,
  /** Of all runs of one agent, where its operators do not say less, and of a tenant: disks end. */
  agent_files_bytes: 1024 * MiB,
  tenant_files_bytes: 4 * 1024 * MiB,
  /** What fetching them may take of a call's time, before its own begins. */
  files_ms: 60_000,
  /** Things a tenant may hold, so that its directory stays one message. */
  tools: 1_000,
  principals: 1_000,
  /** The floor's included; a statement can name them all. */
  policies: 1_100,
  policy_bytes: 64 * KiB,
  /** Cases of one file, how long all of them may take, and the sets that they change, each of which is checked anew. */
  policy_cases: 200,
  policy_cases_ms: 5_000,
  policy_case_bytes: 256 * KiB,
  /** Versions of a policy set that are kept though they were never in force; those that were stay. */
  policy_versions: 1_000,
  /** Brackets and operators inside each other in one policy: the engine dies of some 100, on a stack that nobody can enlarge. */
  policy_depth: 48,
  /** Conditions joined in one policy: the engine dies of some 3,000. */
  policy_conditions: 256,
  /** Arguments of a tool that policy sees: each is a part of the type that every rule over all tools is held against. */
  policy_attributes: 256,
  /** Parts of rules, as often as there are tools that the rule is held against when a set is put: 0.3 µs each, while all others wait. */
  policy_checks: 3_000_000,
  /** What telling all that is wrong with one rule may take, in µs: each mistake is told for each action that the rule covers. */
  policy_check_us: 2_000_000,
  /** Characters of patterns times characters of a question: at the worst, the engine holds each against each, about 1 ns for both. */
  policy_looks: 100_000_000,
  /** A rehearsal of a policy set: how far back, how many calls, of how many runs, how long, and how many flips are told one by one. */
  rehearsal_days: 90,
  rehearsal_calls: 5_000,
  /** Each is an object that is woken, about 0.1 MB while it is awake. */
  rehearsal_runs: 1_000,
  rehearsal_ms: 20_000,
  rehearsal_flips: 200,
  /** Calls of one run that are looked at in one go: live calls of the same run wait that long. */
  rehearsal_calls_at_once: 50,
  /** A longer run is not counted again for what it had used at each of its calls: with this many, live calls wait some 30 ms at a time. */
  rehearsal_run_calls: 1_000,
  /** Calls of one run, whatever its budget says. */
  calls_per_run: 1_000_000,
  /** Pending approvals of one run: a flood of cards is an attack on the approver (P12). */
  pending_approvals_per_run: 50,
  /** Calls of one session that are open at once, where policy counts by session: each new one asks the runs of all. */
  session_open_calls: 1_000,
  /**
   * Calls that may wait for a worker: in one pool, and of one run there. Beyond, proposals are refused until some have been claimed; in a
   * full pool, whose agent has less than an equal share of it is let in still.
   */
  waiting_calls_per_pool: 10_000,
  waiting_calls_per_run: 1_000,
  /** Calls of skills that may wait for a place, each with its object open (0.4 MB, three files): at the edge, of a tenant, and of one agent. */
  waiting_skill_calls: 1_024,
  waiting_skill_calls_per_tenant: 512,
  waiting_skill_calls_per_agent: 256,
  /** Of one agent, in Redis at a time: so many stand before the first call of another. Enough for one claim to follow the other. */
  doorbells_per_agent: 8,
  /** What would change a denial: facts of one alternative, alternatives told, and those that the engine is asked about to find them. */
  explanation_facts: 3,
  explanation_changes: 3,
  explanation_tries: 16,
  /** What the engine is handed for that in all: it takes some 0.1 ms for each KiB. */
  explanation_tried_chars: 1 * MiB,
  /** What one alternative may ask for in all: of one fact, a list, it may ask for several things. */
  explanation_flips: 9,
  /** The search for them: nodes of policies that are looked at and alternatives that are joined, and how many are carried along. */
  explanation_steps: 3_000,
  explanation_width: 16,
  /** Of a list whose members would all do, those that are tried; and of one that needs several, how many it may need. */
  explanation_members: 3,
  /** A value as it is told: who can mend a longer one knows it. */
  explanation_chars: 120,
  /** Of a value that is longer than this, its length is told: what is told is searched for secrets first. */
  explanation_read_chars: 4_096,
  /** An operator's sign-in to the console: how long it lasts unused, and at the most, and how many one operator has; the oldest ends. */
  console_idle_ms: 30 * 60_000,
  console_ms: 12 * 3600_000,
  console_sessions: 16,
  /** Wrong secrets for one key within a minute; after those the right one has to wait too. */
  sign_in_tries: 10,
  /** Channels of a tenant; each approval makes a message for each. */
  channels: 16,
  channel_url_chars: 2_048,
  /** Keys that sign at the same time, while one takes the place of another. */
  channel_keys: 4,
  /** How long somebody may be away: whoever has left for good is no operator. */
  delegation_s: 90 * 24 * 3600,
  /** People whom one channel writes to. */
  channel_recipients: 64,
  /** People of Slack whom one channel knows as operators. */
  channel_users: 256,
  /** How long an attempt at a message may take, and attempts of one channel at a time. */
  delivery_ms: 10_000,
  deliveries_at_once: 8,
  /** Attempts before a message is given up, and the pauses between them: half an hour in all, twice an approval's default life. */
  delivery_tries: 12,
  delivery_pause_ms: 2_000,
  delivery_pause_max_ms: 5 * 60_000,
  /** Of an answer, where an adapter has to read it. Slack’s repeats the message, six bytes for a letter that is not ASCII. */
  delivery_answer_bytes: 256 * KiB,
  /** A text of an approval in a message; the whole is on its page. Receivers of webhooks expect less than 20 kB. */
  message_chars: 4_000,
  /** The same in Slack, which takes 3,000 in one text; what is cut says so in less than the rest. */
  slack_chars: 2_800,
  /** What Slack sends of a press: the message again, nine bytes for a letter that is not ASCII. Whoever sends it has it digested. */
  slack_body_bytes: 512 * KiB,
  /** Age of a request that Slack has signed, and how far a clock may stand off; as Slack says. */
  slack_age_s: 5 * 60,
  /** After this long, Slack is told that an answer was taken, whether it is through or not: it waits for 3 s. */
  slack_ack_ms: 2_000,
  /** What whoever collects mails says of one that could not be delivered: operators read it. */
  delivery_why_chars: 200,
  /** How long it stays on record what was sent of an approval that has ended. */
  delivery_days: 7,
  /** How long a console's live list waits before it looks whether its session still is, and how often it tells news at the most. */
  console_wait_ms: 15_000,
  console_pause_ms: 250,
  /**
   * Open pages that are told what happens: of one link or one session, and of a tenant; those of the next say nothing until they are
   * loaded again.
   */
  streams_each: 8,
  streams_tenant: 512,
  /** Who follows calls of one run: of one principal, or one session of the console, `streams_each`. */
  streams_run: 64,
  /** Questions that ask exactly the same, and are answered at once: each is a transition of its own run. */
  answers_at_once: 200,
  /** Secrets of a tenant: the directory carries them sealed, and each text that people are shown is searched for all of them. */
  secrets: 100,
  secret_chars_min: 8,
  /** What secrets were before they were put anew or removed: so many values, the newest, stay hidden in what was decided with them. */
  former_secrets: 100,
  secret_chars: 8_192,
  secret_tools: 100,
  secret_hosts: 16,
  /** Skills of a tenant, their versions, and the keys of those who publish them. */
  skills: 500,
  skill_versions: 100,
  publishers: 100,
  publisher_keys: 4,
  skill_tools: 16,
  /** What an author says of a skill and its tools, schemas included: a page of a hundred is read at once. */
  skill_manifest_bytes: 256 * KiB,
  /** A component in base64 in a signed payload in base64. */
  skill_package_bytes: 8 * MiB,
  /** What a package tells of its component: the bill of materials and how many it lists, where it was built, a name or version in either. */
  skill_sbom_bytes: 256 * KiB,
  skill_parts: 1_000,
  skill_provenance_bytes: 64 * KiB,
  skill_told_chars: 512,
  /** Patterns of parts that no skill is to be made of: each is held against each part of each version that is listed. */
  denied_parts: 200,
  /** Of what does not hold, so many are told at once. */
  skill_faults: 32,
  /** A skill's component, and what an isolate loads of it. Compiled from Rust it is some 100 KB, with a JavaScript engine in it 0.8 MB. */
  skill_component_bytes: 4 * MiB,
  skill_code_bytes: 12 * MiB,
  /** What a component says beside its code: types, imports, how its parts are joined. A type is told with all that it is made of. */
  skill_described_bytes: 16 * KiB,
  skill_types: 64,
  skill_type_chars: 400,
  skill_name_bytes: 128,
  skill_modules: 16,
  /** What compiling a module may take, in values that are carried past points where ways part or meet (edge/skills/effort). */
  skill_effort: 500_000,
  skill_effort_a_byte: 3,
  skill_tables: 16,
  /** Of all its modules: what is told of exports becomes a function of ours for each call, and elements are laid out before a call pays for anything. */
  skill_exports: 1_000,
  skill_element_bytes: 64 * KiB,
  /** How its code is kept; a Durable Object value ends at 2 MB. */
  skill_part_bytes: 1 * MiB,
  /**
   * A skill's first slice of fuel, and how long a later one is to take, beside others and alone: who asks for something waits for a slice
   * some ten times. And what it may burn where nobody can wait.
   */
  skill_slice_fuel: 500_000,
  skill_slice_ms: 2,
  skill_slice_alone_ms: 10,
  skill_alone_fuel: 1_000_000,
  /** What a call of the host costs beside its bytes, and what of a call's log is kept. */
  skill_host_call_fuel: 2_000,
  /**
   * A text that it hands over, as its result and before: no more is read of it, for what reads it is no code of its own, and takes 100 ms for
   * 1 MiB that is no text.
   */
  skill_text_bytes: 1 * MiB,
  skill_asked_text_bytes: 128 * KiB,
  skill_text_byte_fuel: 10,
  /** What it may ask with, beside the body of a request: the least that leaves the words of a refusal to whoever knows what it is about. */
  skill_asked_bytes: 512 * KiB,
  /** The longest slice of fuel: what burns little for each unit may burn much the next time. */
  skill_slice_fuel_most: 10_000_000,
  /** What a skill says of its own failure, before secrets are hidden in it: the longest one may begin before the end. */
  skill_detail_chars: 40 * KiB,
  /** Memory of calls that have ended, which an isolate may hold before it sees to it that it is given back. */
  skill_sweep_bytes: 64 * MiB,
  /** How long one whose time is over may take to say what it has burnt. */
  skill_farewell_ms: 200,
  skill_log_chars: 64 * KiB,
  /** Kept until secrets are hidden in it: the longest one, in the longest spelling, may begin before the end. */
  skill_log_spare_chars: 32 * KiB,
  /** What a skill keeps from call to call. A value is lifted into the skill's memory whole; all of 500 skills together fit on a small disk. */
  skill_key_chars: 256,
  skill_value_bytes: 256 * KiB,
  skill_keys: 10_000,
  skill_storage_bytes: 8 * MiB,
  /** Told at once: 256 KiB of keys at the most. */
  skill_keys_listed: 1_000,
  /** What a skill posts to people: how long, how often in one call, and how often within an hour. Who is told too much reads nothing (P12). */
  notice_chars: 2_000,
  notices_per_call: 5,
  notices_per_hour: 60,
  /** How often a call may use each function of its host that has to ask somebody, and what of a request is told in text. */
  skill_host_calls: 1_000,
  skill_url_chars: 8 * KiB,
  skill_header_chars: 16 * KiB,
  /** Of a skill that is tried: trials at once, answers that one has recorded, and what they hold; all of them together burn what one call may, in a time that is long even where others burn too. */
  trials: 32,
  trials_fuel: 10_000_000_000,
  trials_ms: 60_000,
  trial_answers: 64,
  trial_text_chars: 256 * KiB,
  /** One page of a list. */
  page: 100,
} as const

/** What a call gets when neither tool, agent nor run says less. */
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

/** What nobody may exceed. */
export const MAX_LIMITS = {
  timeout_ms: 30 * 60_000,
  cpu_ms: 30 * 60_000,
  memory_bytes: 16 * 1024 * MiB,
  pids: 4_096,
  open_files: 65_536,
  file_bytes: 4 * 1024 * MiB,
  workspace_bytes: 4 * 1024 * MiB,
  /** Each is looked at, again and again, while a call runs. */
  workspace_inodes: 262_144,
  output_bytes: LIMITS.output_bytes,
  net_bytes: 64 * 1024 * MiB,
  /** Refused ones too: each is an entry in the worker's memory while the call runs. */
  net_connections: 10_000,
} as const

/**
 * What a skill gets when its manifest says nothing else, and what none may exceed. 100 million units of fuel are 5 to 50 ms of what compilers make of
 * programs, and 2 s of the worst; nobody else waits for longer than a slice.
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
  /** Less than a lease: nobody speaks for a running skill but the run that waits for it. */
  timeout_ms: 10_000,
  fuel: 10_000_000_000,
  memory_bytes: 64 * MiB,
  output_bytes: LIMITS.output_bytes,
  table_elements: 10_000,
  /** They lie in the edge's memory while the skill reads them. */
  net_bytes: 8 * MiB,
  net_connections: 32,
} as const

/** A run's budget where nobody says otherwise. The reference system's 4 calls and 750 ms proved too few for its users. */
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
