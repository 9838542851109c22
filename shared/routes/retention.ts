// Routes of retention: how long the tenant keeps what it has of ended runs, and legal holds; and the
// journal of all that its operators administer.

import { z } from 'zod'
import { JournalEntry } from '../evidence/journal.ts'
import { Hold, HoldSubject, Keep, Reason, RetentionRule } from '../wire/retention.ts'
import { list, number, routes } from './route.ts'

const held = z.strictObject({ subject: HoldSubject })
const why = z.strictObject({ reason: Reason })

export const RETENTION = routes({
  readRetention: {
    method: 'GET',
    path: '/v1/retention',
    callers: ['operator'],
    action: 'retention.read',
    summary:
      'Read how many days the tenant keeps outputs, arguments and evidence of ended runs (`null`: for ever), and the rule that says so; `rule` is `null` if none was ever set',
    status: 200,
    result: z.strictObject({ keep: Keep, rule: RetentionRule.nullable() }),
    failures: [],
  },
  putRetention: {
    method: 'PUT',
    path: '/v1/retention',
    callers: ['operator'],
    action: 'retention.write',
    summary:
      'Set how many days after the last event of a run its outputs, arguments and evidence are kept (`null`: for ever). Older data is removed for good, and its digests stay; outputs are kept at most as long as arguments, and those at most as long as evidence',
    body: Keep,
    status: 200,
    result: RetentionRule,
    failures: [],
  },
  listHolds: {
    method: 'GET',
    path: '/v1/holds',
    callers: ['operator'],
    action: 'retention.read',
    summary: 'List the legal holds in force, the oldest first',
    status: 200,
    result: list(Hold),
    failures: [],
  },
  putHold: {
    method: 'PUT',
    path: '/v1/holds/{subject}',
    callers: ['operator'],
    action: 'hold.write',
    params: held,
    summary:
      'Put a legal hold on `tenant` or on a run: retention removes nothing of it, and the tenant can’t be deleted, until the hold is lifted. A hold on a run also holds the runs that share its storage',
    body: why,
    status: 200,
    result: Hold,
    failures: ['not_found', 'limit_reached'],
  },
  liftHold: {
    method: 'POST',
    path: '/v1/holds/{subject}/lift',
    callers: ['operator'],
    action: 'hold.write',
    params: held,
    summary: 'Lift a legal hold. What is older than the retention rule keeps is then removed',
    body: why,
    status: 200,
    result: Hold,
    failures: ['not_found'],
  },
  readTenantJournal: {
    method: 'GET',
    path: '/v1/tenant-journal',
    callers: ['operator'],
    action: 'retention.read',
    query: z.strictObject({ after: number(1e9).default(0) }),
    summary:
      'List the hash-chained changes of what operators administer, one page at a time: who and when, with names, versions and digests. Each is a leaf of the tenant’s log. Skills and upstreams have journals of their own',
    status: 200,
    result: list(JournalEntry),
    failures: [],
  },
})
