// The installation's own policies fit their schema, and permit only the holder of the installation
// key, only its actions.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isAuthorized, validate } from '@cedar-policy/cedar-wasm/nodejs'
import { expect, test } from 'vitest'
import { ROOT } from '../../../infra/state.ts'
import { ROUTES } from '../../../shared/routes/all.ts'
import type { Route } from '../../../shared/routes/route.ts'

const read = (name: string): string => readFileSync(join(ROOT, 'policies/installation', name), 'utf8')
const [schema, policies] = [read('schema.cedarschema'), { staticPolicies: read('tenants.cedar') }]
const governed = Object.values<Route>(ROUTES).filter(({ callers }) => callers.includes('installation'))

const decided = (principal: string, action: string, tenant: string): string => {
  const answer = isAuthorized({
    principal: { type: principal, id: 'root' },
    action: { type: 'Action', id: action },
    resource: { type: 'Installation', id: 'this' },
    context: { tenant },
    policies,
    entities: [],
  })
  return answer.type === 'success' ? answer.response.decision : 'error'
}

test('the policies of the installation fit their schema', () => {
  const checked = validate({ schema, policies })
  expect(checked).toMatchObject({ type: 'success', validationErrors: [], validationWarnings: [] })
})

test('only the operator of the installation may use the action of each of its routes', () => {
  expect(governed.length).toBeGreaterThan(5)
  for (const { action } of governed) {
    expect([action, decided('InstallationOperator', action ?? '', 'acme')]).toEqual([action, 'allow'])
    for (const other of ['Operator', 'Agent', 'Worker'])
      expect([action, decided(other, action ?? '', 'acme')]).toEqual([action, 'deny'])
  }
  expect(decided('InstallationOperator', 'operator.write', 'acme')).toBe('deny')
})

test('the default tenant can’t be deleted', () => {
  expect(decided('InstallationOperator', 'tenant.delete', 'default')).toBe('deny')
  expect(decided('InstallationOperator', 'tenant.suspend', 'default')).toBe('allow')
})
