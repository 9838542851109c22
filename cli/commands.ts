// The table of all commands, in the order in which help lists them. Help, parser and tests read it.

import { EXPORT_TARGET } from './admin/export-target.ts'
import { ISSUERS } from './admin/issuers.ts'
import { PRINCIPALS } from './admin/principals.ts'
import { RETENTION } from './admin/retention.ts'
import { SECRETS } from './admin/secrets.ts'
import { TENANTS } from './admin/tenants.ts'
import { TOOLS } from './admin/tools.ts'
import { APPROVALS } from './approvals/approvals.ts'
import { EDITS } from './approvals/edit-arguments.ts'
import { STANDING } from './approvals/standing.ts'
import { CALL_FILES } from './calls/call-files.ts'
import { CALLS } from './calls/calls.ts'
import { exportRuns } from './calls/export.ts'
import { KEYS } from './calls/keys.ts'
import { verify } from './calls/verify.ts'
import { CHANNELS } from './channels/channels.ts'
import { backup } from './host/backup.ts'
import { EDGE_KEYS } from './host/edge-keys.ts'
import { restore } from './host/restore.ts'
import { LOG } from './log/commands.ts'
import { journal } from './log/journal.ts'
import { POLICY_CHECKS } from './policy/check.ts'
import { explain } from './policy/explain.ts'
import { POLICY } from './policy/policy.ts'
import { POLICY_TRIALS } from './policy/rehearsal.ts'
import type { Command } from './shell/command.ts'
import { build } from './skills/build.ts'
import { EDGE_STATE } from './skills/edge-state.ts'
import { LIFECYCLE } from './skills/lifecycle.ts'
import { newSkill } from './skills/new.ts'
import { keygen } from './skills/publisher-key.ts'
import { PUBLISHERS } from './skills/publishers.ts'
import { test } from './skills/test.ts'
import { UPSTREAMS } from './upstreams/upstreams.ts'
import { wrap } from './upstreams/wrap.ts'
import { witness } from './witness/command.ts'

export const COMMANDS: readonly Command[] = [
  ...CALLS,
  ...CALL_FILES,
  ...EDGE_KEYS,
  ...KEYS,
  verify,
  exportRuns,
  ...LOG,
  journal,
  ...EXPORT_TARGET,
  ...APPROVALS,
  ...EDITS,
  ...STANDING,
  ...CHANNELS,
  ...TOOLS,
  ...SECRETS,
  ...UPSTREAMS,
  wrap,
  newSkill,
  keygen,
  build,
  test,
  ...LIFECYCLE,
  ...EDGE_STATE,
  ...PUBLISHERS,
  ...POLICY_CHECKS,
  ...POLICY,
  ...POLICY_TRIALS,
  explain,
  ...PRINCIPALS,
  ...ISSUERS,
  ...RETENTION,
  ...TENANTS,
  witness,
  backup,
  restore,
]
