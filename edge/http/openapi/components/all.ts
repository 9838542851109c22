// Every named schema of the API description, registered under its name.

import { z } from 'zod'
import { ACCESS } from './access.ts'
import { ADMINISTRATION } from './administration.ts'
import { APPROVALS } from './approvals.ts'
import { CALLS } from './calls.ts'
import { CHANNELS_AND_POLICIES } from './channels-and-policies.ts'
import type { Component } from './component.ts'
import { EVIDENCE } from './evidence.ts'
import { SKILLS } from './skills.ts'
import { UPSTREAMS } from './upstreams.ts'

export const COMPONENTS: Readonly<Record<string, Component>> = {
  ...CALLS,
  ...APPROVALS,
  ...ADMINISTRATION,
  ...CHANNELS_AND_POLICIES,
  ...SKILLS,
  ...EVIDENCE,
  ...ACCESS,
  ...UPSTREAMS,
}

/** A separate registry, so that descriptions from elsewhere stay out of the document. */
export const registry = z.registry<{ id: string; description: string }>()
for (const [id, { schema, description }] of Object.entries(COMPONENTS))
  registry.add(schema, { id, description })
