// Tables of a TenantObject. Rows are small; compound values are JSON documents.

import { blob, index, integer, primaryKey, sqliteTable, text } from 'drizzle-orm/sqlite-core'
import type { Json } from '../../shared/bytes/json.ts'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import type { Tier } from '../../shared/plan/plan.ts'
import type { Approval, Standing } from '../../shared/wire/approvals.ts'
import type { ExportTarget } from '../../shared/wire/exports.ts'
import type { IssuerSpec } from '../../shared/wire/issuers.ts'
import type { AgentSpec, OperatorSpec } from '../../shared/wire/principals.ts'
import type { Keep } from '../../shared/wire/retention.ts'
import type { Skill, SkillState } from '../../shared/wire/skills.ts'
import type { Quota, TenantState } from '../../shared/wire/tenants.ts'
import type { ToolSpec } from '../../shared/wire/tools.ts'
import type { UpstreamSpec, UpstreamToolTerms } from '../../shared/wire/upstreams.ts'

/**
 * One row: the directory's version, which every change increments, the times of set-up, and the
 * installation's decisions.
 */
export const meta = sqliteTable('meta', {
  id: integer().primaryKey(),
  version: integer().notNull(),
  createdAt: integer('created_at').notNull(),
  state: text().$type<TenantState>().notNull().default('active'),
  /** `null`: the default. */
  quota: text({ mode: 'json' }).$type<Quota>(),
  /** The revision of the installation's last change that was accepted. */
  governed: integer().notNull().default(0),
  /**
   * Calls with idempotency keys of this time or later share objects. `null`: an earlier version of the
   * edge made the tenant.
   */
  runsShareSince: integer('runs_share_since'),
})

/** At most one row: the bucket that receives exports, and the sealed secret of its access key. */
export const exportTarget = sqliteTable('export_target', {
  id: integer().primaryKey(),
  shown: text({ mode: 'json' }).$type<ExportTarget>().notNull(),
  sealed: text().notNull(),
})

/** One row: proposals of one day, counted in advance. */
export const callsCounted = sqliteTable('calls_counted', {
  id: integer().primaryKey(),
  day: integer().notNull(),
  n: integer().notNull(),
})

export const agents = sqliteTable('agents', {
  name: text().primaryKey(),
  keyHash: text('key_hash').notNull(),
  spec: text({ mode: 'json' }).$type<AgentSpec>().notNull(),
  createdAt: integer('created_at').notNull(),
  /**
   * When the secrets of its webhook were made, the newest first; `null` without a webhook. The
   * secrets are derived from it and stored nowhere.
   */
  webhookSecrets: text('webhook_secrets', { mode: 'json' }).$type<readonly number[]>(),
})

export const operators = sqliteTable('operators', {
  name: text().primaryKey(),
  keyHash: text('key_hash').notNull(),
  spec: text({ mode: 'json' }).$type<OperatorSpec>().notNull(),
  createdAt: integer('created_at').notNull(),
})

/** Every version of every tool, never deleted; `active` marks the callable one. */
export const tools = sqliteTable(
  'tools',
  {
    name: text().notNull(),
    version: integer().notNull(),
    digest: text().notNull(),
    spec: text({ mode: 'json' }).$type<ToolSpec>().notNull(),
    active: integer({ mode: 'boolean' }).notNull(),
    createdAt: integer('created_at').notNull(),
    createdBy: text('created_by').notNull(),
  },
  (table) => [primaryKey({ columns: [table.name, table.version] }), index('tools_active').on(table.active)],
)

/** Immutable versions of the tenant's own policy set; `active` marks the active one. */
export const policySets = sqliteTable(
  'policy_sets',
  {
    version: integer().primaryKey(),
    digest: text().notNull(),
    policies: text({ mode: 'json' }).$type<Record<string, string>>().notNull(),
    note: text().notNull(),
    author: text().notNull(),
    active: integer({ mode: 'boolean' }).notNull(),
    createdAt: integer('created_at').notNull(),
  },
  (table) => [index('policy_sets_active').on(table.active)],
)

/** One row or none: the version in shadow, and since when. */
export const policyShadow = sqliteTable('policy_shadow', {
  id: integer().primaryKey(),
  version: integer().notNull(),
  since: integer().notNull(),
  by: text().notNull(),
})

/** The activations of versions, in order. */
export const policyActivations = sqliteTable(
  'policy_activations',
  {
    seq: integer().primaryKey({ autoIncrement: true }),
    version: integer().notNull(),
    at: integer().notNull(),
    by: text().notNull(),
  },
  (table) => [index('policy_activations_version').on(table.version)],
)

export const enrolments = sqliteTable('enrolments', {
  id: text().primaryKey(),
  hash: text().notNull(),
  pool: text().notNull(),
  expiresAt: integer('expires_at').notNull(),
  usedAt: integer('used_at'),
})

export const workers = sqliteTable('workers', {
  id: text().primaryKey(),
  name: text().notNull(),
  pool: text().notNull(),
  kid: text().notNull(),
  x: text().notNull(),
  tiers: text({ mode: 'json' }).$type<Tier[]>().notNull(),
  status: text({ enum: ['active', 'revoked'] }).notNull(),
  enrolledAt: integer('enrolled_at').notNull(),
  /** The random id of the process that serves as this worker. */
  process: text(),
  /** When another process with its key last sent a request while the serving process was alive. */
  doubledAt: integer('doubled_at'),
  /** Since when it has its present key, if it has had another one. */
  keySince: integer('key_since'),
  revokedAt: integer('revoked_at'),
  /** Somebody else may have had its keys since then. */
  distrustedFrom: integer('distrusted_from'),
})

/** The earlier keys of workers, which have signed evidence. */
export const formerWorkerKeys = sqliteTable('former_worker_keys', {
  kid: text().primaryKey(),
  worker: text().notNull(),
  x: text().notNull(),
  fromAt: integer('from_at').notNull(),
  untilAt: integer('until_at').notNull(),
})

/** The last proof of each worker, as it signed it. */
export const proofs = sqliteTable('proofs', {
  worker: text().primaryKey(),
  /** By the edge's clock. */
  receivedAt: integer('received_at').notNull(),
  envelope: text({ mode: 'json' }).$type<Envelope>().notNull(),
})

/** A mirror of approvals for the operators' list; the truth is in each run. */
export const inbox = sqliteTable(
  'inbox',
  {
    id: text().primaryKey(),
    pending: integer({ mode: 'boolean' }).notNull(),
    requestedAt: integer('requested_at').notNull(),
    approval: text({ mode: 'json' }).$type<Approval>().notNull(),
    group: text(),
    /** Marks one of the identical pending approvals, which lists show for all of them. */
    head: integer({ mode: 'boolean' }).notNull().default(false),
    agent: text().notNull().default(''),
    tool: text().notNull().default(''),
    /** 0 is critical, 3 is low. */
    risk: integer().notNull().default(0),
    /** The number of its last change, from one sequence for the whole inbox. */
    changed: integer(),
  },
  // Listing, counting and filtering read only the index; documents are read only to be shown. Every
  // new approval pays for each index.
  (table) => [
    index('inbox_listed').on(
      table.pending,
      table.head,
      table.requestedAt,
      table.id,
      table.agent,
      table.tool,
      table.risk,
    ),
    index('inbox_group').on(table.group, table.head, table.pending, table.requestedAt, table.id),
    index('inbox_changed').on(table.changed),
  ],
)

/** The number of approvals that people were asked for, by agent. */
export const asks = sqliteTable('asks', { agent: text().primaryKey(), n: integer().notNull() })

/** How long approvals were pending: a histogram for each channel and outcome. */
export const waits = sqliteTable(
  'waits',
  {
    channel: text().notNull(),
    outcome: text().notNull(),
    bucket: integer().notNull(),
    n: integer().notNull(),
    total_ms: integer().notNull(),
  },
  (table) => [primaryKey({ columns: [table.channel, table.outcome, table.bucket] })],
)

/**
 * Console sessions, by the hash of the cookie's token. A session is valid only while its operator's
 * key is the same.
 */
export const consoleSessions = sqliteTable('console_sessions', {
  hash: text().primaryKey(),
  keyHash: text('key_hash').notNull(),
  createdAt: integer('created_at').notNull(),
  seenAt: integer('seen_at').notNull(),
})

/** Issuers of tokens. `agents`: when each agent that a rule names had been created. */
export const issuers = sqliteTable('issuers', {
  name: text().primaryKey(),
  issuer: text().notNull().unique(),
  spec: text({ mode: 'json' }).$type<IssuerSpec>().notNull(),
  agents: text({ mode: 'json' }).$type<Record<string, number>>().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
})

/** Secrets. Their values are sealed, so none is on disk in clear. */
export const secrets = sqliteTable('secrets', {
  name: text().primaryKey(),
  version: integer().notNull(),
  sealed: text().notNull(),
  tools: text({ mode: 'json' }).$type<string[]>().notNull(),
  hosts: text({ mode: 'json' }).$type<string[]>(),
  by: text().notNull(),
  at: integer().notNull(),
})

/** The newest former values of secrets. They are never handed out, only masked in older calls. */
export const formerSecrets = sqliteTable('former_secrets', {
  seq: integer().primaryKey({ autoIncrement: true }),
  name: text().notNull(),
  version: integer().notNull(),
  sealed: text().notNull(),
})

/**
 * Bytes of files that each run last reported, and until when the report counts; and the sums by
 * holder: an agent for its runs, or what skills keep (`SKILLS` in storage-store.ts).
 */
export const filesHeld = sqliteTable(
  'files_held',
  {
    run: text().primaryKey(),
    agent: text().notNull(),
    bytes: integer().notNull(),
    until: integer().notNull(),
  },
  (table) => [index('files_held_until').on(table.until)],
)
export const filesSums = sqliteTable('files_sums', {
  holder: text('agent').primaryKey(),
  bytes: integer().notNull(),
})

/** A mirror of standing answers; the truth is in each session. */
export const standing = sqliteTable('standing', {
  id: text().primaryKey(),
  until: integer().notNull(),
  standing: text({ mode: 'json' }).$type<Standing>().notNull(),
})

/** Every version of every skill, never deleted; only its state changes. */
export const skills = sqliteTable(
  'skills',
  {
    id: text().notNull(),
    version: text().notNull(),
    publisher: text().notNull(),
    digest: text().notNull(),
    state: text().$type<SkillState>().notNull(),
    about: text({ mode: 'json' }).$type<Omit<Skill, 'state' | 'changes' | 'denied'>>().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.id, table.version] }),
    index('skills_state').on(table.state),
    index('skills_digest').on(table.digest),
    index('skills_publisher').on(table.publisher),
  ],
)

/** The skill that owns the name of a tool: the first one published with it. */
export const skillTools = sqliteTable('skill_tools', { name: text().primaryKey(), skill: text().notNull() })

/**
 * The journal of skills and publishers: hash-chained, and each entry is a leaf of the tenant's log.
 */
export const skillJournal = sqliteTable(
  'skill_journal',
  {
    seq: integer().primaryKey(),
    at: integer().notNull(),
    kind: text().notNull(),
    /** The subject, which the body contains too. */
    publisher: text().notNull(),
    skill: text(),
    version: text(),
    body: text({ mode: 'json' }).$type<Record<string, unknown>>().notNull(),
    hash: text().notNull(),
    /** Whether the log has accepted it. */
    logged: integer({ mode: 'boolean' }).notNull().default(false),
  },
  (table) => [
    index('skill_journal_skill').on(table.skill, table.version),
    index('skill_journal_publisher').on(table.publisher),
    index('skill_journal_logged').on(table.logged),
  ],
)

/** Packages and their modules, by digest, in parts that fit a row. */
export const skillParts = sqliteTable(
  'skill_parts',
  { sha256: text().notNull(), part: integer().notNull(), bytes: blob({ mode: 'buffer' }).notNull() },
  (table) => [primaryKey({ columns: [table.sha256, table.part] })],
)

/** The keys of publishers. A key belongs to one publisher. */
export const publisherKeys = sqliteTable(
  'publisher_keys',
  {
    kid: text().primaryKey(),
    x: text().notNull(),
    publisher: text().notNull(),
    /** Whether it was trusted on first use, rather than listed by an operator. */
    pinned: integer({ mode: 'boolean' }).notNull(),
    at: integer().notNull(),
    by: text().notNull(),
  },
  (table) => [index('publisher_keys_publisher').on(table.publisher)],
)

/** Permanently revoked keys. */
export const revokedKeys = sqliteTable('revoked_keys', {
  kid: text().primaryKey(),
  publisher: text().notNull(),
  at: integer().notNull(),
  by: text().notNull(),
  reason: text().notNull(),
})

/** An operator's statement: why, who and when. */
const stated = { reason: text().notNull(), by: text().notNull(), at: integer().notNull() }

/** Parts that no skill may contain. */
export const deniedParts = sqliteTable('denied_parts', { pattern: text().primaryKey(), ...stated })

/** Remote MCP servers. `revision` increases with each change of its address or authentication. */
export const upstreams = sqliteTable('upstreams', {
  name: text().primaryKey(),
  spec: text({ mode: 'json' }).$type<UpstreamSpec>().notNull(),
  revision: integer().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
  lookedAt: integer('looked_at'),
  era: text().$type<'modern' | 'legacy'>(),
  /** Why the last look failed. */
  fault: text(),
  /** Listed tools that can have no name here. */
  refused: text({ mode: 'json' }).$type<{ tool: string; why: string }[]>().notNull(),
})

const journalColumns = {
  seq: integer().primaryKey(),
  at: integer().notNull(),
  kind: text().notNull(),
  body: text({ mode: 'json' }).$type<Record<string, unknown>>().notNull(),
  hash: text().notNull(),
  /** Whether the log has accepted it. */
  logged: integer({ mode: 'boolean' }).notNull().default(false),
}

/** The journal of upstreams: hash-chained, and each entry is a leaf of the tenant's log. */
export const upstreamJournal = sqliteTable('upstream_journal', journalColumns, (table) => [
  index('upstream_journal_logged').on(table.logged),
])

/** The journal of all that is administered otherwise, in the same way. */
export const tenantJournal = sqliteTable('tenant_journal', journalColumns, (table) => [
  index('tenant_journal_logged').on(table.logged),
  index('tenant_journal_kind').on(table.kind),
])

/** Every retention rule, never changed; the last one is in force. */
export const retentionRules = sqliteTable('retention_rules', {
  rule: integer().primaryKey({ autoIncrement: true }),
  keep: text({ mode: 'json' }).$type<Keep>().notNull(),
  by: text().notNull(),
  at: integer().notNull(),
})

/** Legal holds in force. `subject`: `tenant`, or the id of a run. */
export const holds = sqliteTable('holds', { subject: text().primaryKey(), ...stated })

/** Archives with entries. `notified`: the last journal entry of a rule or hold of which each archive knows. */
export const archives = sqliteTable(
  'archives',
  { name: text().primaryKey(), notified: integer().notNull() },
  (table) => [index('archives_notified').on(table.notified)],
)

/**
 * Tools of upstreams: the definition that an operator accepted, and the one that the server showed
 * last. `quarantined`: it has shown another one since, whatever it shows now.
 */
export const upstreamTools = sqliteTable(
  'upstream_tools',
  {
    name: text().primaryKey(),
    upstream: text().notNull(),
    upstreamName: text('upstream_name').notNull(),
    pinned: text({ mode: 'json' }).$type<Record<string, Json>>(),
    pinnedDigest: text('pinned_digest'),
    seen: text({ mode: 'json' }).$type<Record<string, Json>>(),
    seenDigest: text('seen_digest'),
    quarantined: integer({ mode: 'boolean' }).notNull(),
    faults: text({ mode: 'json' }).$type<string[]>().notNull(),
    terms: text({ mode: 'json' }).$type<UpstreamToolTerms>(),
    acceptedBy: text('accepted_by'),
    acceptedAt: integer('accepted_at'),
  },
  (table) => [index('upstream_tools_upstream').on(table.upstream)],
)
