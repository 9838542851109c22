// The table of all commands, in the order in which help lists them. Help, parser and tests read it.

import { APPROVALS } from './approvals.ts'
import { CALL_FILES } from './call-files.ts'
import { CALLS } from './calls.ts'
import { CHANNELS } from './channels.ts'
import type { Command } from './command.ts'
import { EDITS } from './edits.ts'
import { explain } from './explain.ts'
import { POLICY } from './policy.ts'
import { POLICY_CHECKS } from './policy-check.ts'
import { POLICY_TRIALS } from './policy-rehearsal.ts'
import { PRINCIPALS } from './principals.ts'
import { SECRETS } from './secrets.ts'
import { build } from './skills/build.ts'
import { EDGE_STATE } from './skills/kept.ts'
import { newSkill } from './skills/new.ts'
import { LIFECYCLE } from './skills/published.ts'
import { keygen } from './skills/publisher-key.ts'
import { PUBLISHERS } from './skills/publishers.ts'
import { test } from './skills/trials.ts'
import { STANDING } from './standing.ts'
import { TENANTS } from './tenants.ts'
import { TOOLS } from './tools.ts'
import { verify } from './verify.ts'

export const COMMANDS: readonly Command[] = [
  ...CALLS,
  ...CALL_FILES,
  verify,
  ...APPROVALS,
  ...EDITS,
  ...STANDING,
  ...CHANNELS,
  ...TOOLS,
  ...SECRETS,
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
  ...TENANTS,
]
