// Every route, declared once: method, path, who may call it, which Cedar action it is, what goes in and what comes out.
// The edge's router, the typed client, /openapi.json and /docs are all read from these tables.

import { AGENTS } from './routes/agents.ts'
import { ANYONE } from './routes/anyone.ts'
import { CHANNELS } from './routes/channels.ts'
import { CONSOLE } from './routes/console.ts'
import { OPERATORS } from './routes/operators.ts'
import { POLICIES } from './routes/policies.ts'
import { REHEARSAL } from './routes/rehearsal.ts'
import { SECRETS } from './routes/secrets.ts'
import { SKILL_STORAGE } from './routes/skill-storage.ts'
import { SKILL_TRIALS } from './routes/skill-trials.ts'
import { SKILLS } from './routes/skills.ts'
import { STANDING } from './routes/standing.ts'
import { TENANTS } from './routes/tenants.ts'
import { WORKERS } from './routes/workers.ts'

export const ROUTES = {
  ...AGENTS,
  ...OPERATORS,
  ...CHANNELS,
  ...CONSOLE,
  ...POLICIES,
  ...REHEARSAL,
  ...SECRETS,
  ...SKILL_TRIALS,
  ...SKILL_STORAGE, // before what takes anything for a version
  ...SKILLS,
  ...STANDING,
  ...TENANTS,
  ...WORKERS,
  ...ANYONE,
}
export type Routes = typeof ROUTES
export type RouteName = keyof Routes
