// Routes of the operator of the installation, who manages tenants and can read nothing inside them.

import { z } from 'zod'
import { JournalEntry } from '../evidence/journal.ts'
import { Name } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { Quota, Tenant, TenantName, TenantUse } from '../wire/tenants.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ tenant: TenantName })
const why = z.strictObject({ reason: z.string().max(LIMITS.reason_chars).default('') })

export const TENANTS = routes({
  listTenants: {
    method: 'GET',
    path: '/v1/tenants',
    callers: ['installation'],
    action: 'tenant.read',
    summary: 'List tenants by name, including deleted ones, one page at a time after `after`',
    query: z.strictObject({ after: TenantName.optional() }),
    status: 200,
    result: list(Tenant),
    failures: [],
  },
  createTenant: {
    method: 'POST',
    path: '/v1/tenants',
    callers: ['installation'],
    action: 'tenant.create',
    summary: 'Create a tenant; the response holds the key of its first operator, once',
    body: z.strictObject({
      name: TenantName,
      operator: Name.default('root'),
      quota: Quota.partial().default({}),
    }),
    status: 201,
    location: '/v1/tenants/{name}',
    result: Tenant.extend({ operator: Name, key: z.string() }),
    failures: ['conflict', 'limit_reached'],
  },
  readTenant: {
    method: 'GET',
    path: '/v1/tenants/{tenant}',
    callers: ['installation'],
    action: 'tenant.read',
    params: named,
    summary: 'Read a tenant and its use of the quota; `use` is `null` for a deleted tenant',
    status: 200,
    result: Tenant.extend({ use: TenantUse.nullable() }),
    failures: ['not_found'],
  },
  putQuota: {
    method: 'PUT',
    path: '/v1/tenants/{tenant}/quota',
    callers: ['installation'],
    action: 'tenant.quota',
    params: named,
    summary:
      'Change the quota of a tenant; limits that are left out keep their values. A tenant above a lowered quota keeps what it has and gets no more',
    body: Quota.partial(),
    status: 200,
    result: Tenant,
    failures: ['not_found'],
  },
  suspendTenant: {
    method: 'POST',
    path: '/v1/tenants/{tenant}/suspend',
    callers: ['installation'],
    action: 'tenant.suspend',
    params: named,
    summary:
      'Suspend a tenant at once: its keys are refused and nothing starts; running calls may finish, and its data is kept',
    body: why,
    status: 200,
    result: Tenant,
    failures: ['not_found', 'conflict'],
  },
  resumeTenant: {
    method: 'POST',
    path: '/v1/tenants/{tenant}/resume',
    callers: ['installation'],
    action: 'tenant.resume',
    params: named,
    summary: 'Resume a suspended tenant',
    body: why,
    status: 200,
    result: Tenant,
    failures: ['not_found', 'conflict'],
  },
  deleteTenant: {
    method: 'POST',
    path: '/v1/tenants/{tenant}/delete',
    callers: ['installation'],
    action: 'tenant.delete',
    params: named,
    summary:
      'Delete a suspended tenant and its data permanently; `name` repeats its name, which can’t be used again. If it has an export target, its runs stay until the target has them; `without_export`, which may also be sent after the deletion, removes them at once. `default` can’t be deleted',
    body: z.strictObject({
      name: TenantName,
      /** Its runs are removed without an export to its export target. */
      without_export: z.boolean().default(false),
    }),
    status: 200,
    result: Tenant,
    failures: ['not_found', 'conflict', 'invalid_request', 'unavailable'],
  },
  readInstallationJournal: {
    method: 'GET',
    path: '/v1/installation/journal',
    callers: ['installation'],
    action: 'tenant.read',
    summary:
      'List the journal of changes to tenants, in order and hash-chained; each entry is a leaf of the log `installation`',
    query: z.strictObject({ after: number(1e9).default(0) }),
    status: 200,
    result: list(JournalEntry),
    failures: [],
  },
})
