// All mutants, in the order in which they run.

import { AGREEMENT } from './agreement.ts'
import { ARCHIVES } from './archives.ts'
import { BACKUPS } from './backups.ts'
import { BUNDLES } from './bundles.ts'
import { CLIENTS } from './clients.ts'
import { DECISIONS } from './decisions.ts'
import { EXPORTED } from './exports.ts'
import { KEYS } from './keys.ts'
import { MCP } from './mcp.ts'
import { mutantsOf } from './mutant.ts'
import { PEOPLE } from './people.ts'
import { RUNS } from './runs.ts'
import { SANDBOX } from './sandbox.ts'
import { SKILLS } from './skills.ts'
import { STORAGE } from './storage.ts'
import { TOKENS } from './tokens.ts'
import { UPSTREAMS } from './upstreams.ts'
import { WITNESSES } from './witnesses.ts'
import { WORKER } from './worker.ts'

export const MUTANTS = mutantsOf([
  ...AGREEMENT,
  ...BUNDLES,
  ...KEYS,
  ...DECISIONS,
  ...PEOPLE,
  ...TOKENS,
  ...WORKER,
  ...SANDBOX,
  ...SKILLS,
  ...CLIENTS,
  ...MCP,
  ...UPSTREAMS,
  ...BACKUPS,
  ...RUNS,
  ...ARCHIVES,
  ...STORAGE,
  ...EXPORTED,
  ...WITNESSES,
])
