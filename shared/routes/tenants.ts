// What the operator of the installation may do, who is above tenants and sees nothing inside of them.

import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { Quota, Tenant, TenantName, TenantUse } from '../tenants.ts'
import * as wire from '../wire.ts'
import { list, number, routes } from './route.ts'

const named = z.strictObject({ tenant: TenantName })
const why = z.strictObject({ reason: z.string().max(LIMITS.reason_chars).default('') })

export const TENANTS = routes({
  listTenants: {
    method: 'GET',
    path: '/v1/tenants',
    callers: ['installation'],
    action: 'tenant.read',
    summary: 'Tenants by name, deleted ones too; a page at a time, behind `after`',
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
    summary: 'Make a tenant; the key of its first operator is in the answer, once',
    body: z.strictObject({ name: TenantName, operator: wire.Name.default('root'), quota: Quota.partial().default({}) }),
    status: 201,
    result: Tenant.extend({ operator: wire.Name, key: z.string() }),
    failures: ['conflict', 'limit_reached'],
  },
  readTenant: {
    method: 'GET',
    path: '/v1/tenants/{tenant}',
    callers: ['installation'],
    action: 'tenant.read',
    params: named,
    summary: 'One tenant, with what it uses of its quota; `null` of one that was deleted',
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
      'Change the quota of a tenant; what is left out stays. What it uses beyond a lower quota stays too, and nothing is added to it',
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
    summary: 'Suspend a tenant, at once: nobody of it is let in and nothing starts; calls that run may finish, and its data stays',
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
      'Delete a suspended tenant and what it keeps, for good; `name` repeats its name, which is never given again. `default` can’t be deleted',
    body: z.strictObject({ name: TenantName }),
    status: 200,
    result: Tenant,
    failures: ['not_found', 'conflict', 'invalid_request'],
  },
  readInstallationJournal: {
    method: 'GET',
    path: '/v1/installation/journal',
    callers: ['installation'],
    action: 'tenant.read',
    summary: 'What was done with tenants, hash-chained and in order; each entry is a leaf of the log `installation`',
    query: z.strictObject({ after: number(1e9).default(0) }),
    status: 200,
    result: list(wire.JournalEntry),
    failures: [],
  },
})
