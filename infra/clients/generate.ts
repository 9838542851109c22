// `npm run clients`: writes the types of the client packages from the route
// table. test/clients/generated.test.ts fails if they are stale.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../state.ts'
import { pythonTypes } from './python.ts'
import { agentRoutes, failureCodes, namedSchemas } from './schemas.ts'
import { typescriptTypes } from './typescript.ts'

/** The text of each generated file, by its path from the root. */
export function generatedTypes(): ReadonlyMap<string, string> {
  const parts = [namedSchemas(), agentRoutes(), failureCodes()] as const
  return new Map([
    ['clients/typescript/src/api.ts', typescriptTypes(...parts)],
    ['clients/python/src/countersign_agent/api.py', pythonTypes(...parts)],
  ])
}

if (import.meta.main) for (const [path, text] of generatedTypes()) writeFileSync(join(ROOT, path), text)
