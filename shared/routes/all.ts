// Every route, declared once: method, path, callers, Cedar action, input and output. The edge's
// router, the typed client, /openapi.json and /docs all read these tables.

import { AGENTS } from './agents.ts'
import { AUTHZEN } from './authzen.ts'
import { CHANNELS } from './channels.ts'
import { CONSOLE } from './console.ts'
import { EXPORTS } from './exports.ts'
import { HOOKS } from './hooks.ts'
import { ISSUERS } from './issuers.ts'
import { MCP } from './mcp.ts'
import { OPERATORS } from './operators.ts'
import { POLICIES } from './policies.ts'
import { PUBLIC } from './public.ts'
import { REHEARSALS } from './rehearsals.ts'
import { RETENTION } from './retention.ts'
import { SECRETS } from './secrets.ts'
import { SKILL_STORAGE } from './skill-storage.ts'
import { SKILL_TRIALS } from './skill-trials.ts'
import { SKILLS } from './skills.ts'
import { STANDING } from './standing.ts'
import { TENANTS } from './tenants.ts'
import { UPSTREAM_ROUTES } from './upstreams.ts'
import { WORKERS } from './workers.ts'

export const ROUTES = {
  ...AGENTS,
  ...AUTHZEN,
  ...HOOKS,
  ...MCP,
  ...OPERATORS,
  ...CHANNELS,
  ...CONSOLE,
  ...POLICIES,
  ...REHEARSALS,
  ...EXPORTS,
  ...RETENTION,
  ...ISSUERS,
  ...SECRETS,
  ...SKILL_TRIALS,
  ...SKILL_STORAGE, // before `/v1/skills/{id}/{version}`, which also matches its paths
  ...SKILLS,
  ...STANDING,
  ...TENANTS,
  ...UPSTREAM_ROUTES,
  ...WORKERS,
  ...PUBLIC,
}
export type Routes = typeof ROUTES
export type RouteName = keyof Routes
