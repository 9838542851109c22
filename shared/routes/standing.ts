// Routes for standing answers: listing and revoking them.

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
    summary: 'List standing answers, newest first; `live` if the answer still covers what it was given for',
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
    summary: 'Revoke a standing answer; once this returns, no call starts under it',
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
      'Revoke the standing answers of a session: an agent revokes every approval in its own session, an operator every answer in the session of `agent`',
    body: z.strictObject({ agent: Name.optional() }),
    status: 200,
    result: z.strictObject({ ended: z.int() }),
    failures: ['not_found'],
  },
})
