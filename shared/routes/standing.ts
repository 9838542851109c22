// Answers that stand for further calls: which do, and how they are taken back.

import { z } from 'zod'
import { Name, Opaque, StandingId } from '../fields.ts'
import { Standing } from '../wire/approvals.ts'
import { list, routes } from './route.ts'

export const STANDING = routes({
  listStanding: {
    method: 'GET',
    path: '/v1/standing',
    callers: ['operator'],
    action: 'standing.read',
    summary:
      'Answers that stand for further calls, newest first; `live` where they still cover what they were given for',
    status: 200,
    result: list(Standing.extend({ live: z.boolean() })),
    failures: [],
  },
  revokeStanding: {
    method: 'DELETE',
    path: '/v1/standing/{id}',
    callers: ['operator'],
    action: 'standing.revoke',
    params: z.strictObject({ id: StandingId }),
    summary: 'Take one back; once this is answered nothing begins under it',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
  resetSession: {
    method: 'POST',
    path: '/v1/sessions/{session}/reset',
    callers: ['agent', 'operator'],
    action: 'session.reset',
    params: z.strictObject({ session: Opaque }),
    summary:
      'Take back what stands in a session: an agent every yes in its own, an operator every answer in that of the agent named',
    body: z.strictObject({ agent: Name.optional() }),
    status: 200,
    result: z.strictObject({ ended: z.int() }),
    failures: ['not_found'],
  },
})
