// The console: pages for operators, behind a session that an operator's key opens. Each does what a route of the API does, under the same action;
// what changes something answers with a redirect (303) to the page that shows it.

import { z } from 'zod'
import { number, routes } from './route.ts'

/** Read behind the session: who has none is told to sign in, not which ids there could be. */
const approval = z.strictObject({ id: z.string().max(64) })

const asked = z.strictObject({
  agent: z.string().max(64).default(''),
  tool: z.string().max(64).default(''),
  risk: z.enum(['', 'low', 'medium', 'high', 'critical']).default(''),
  text: z.string().max(200).default(''),
  order: z.enum(['oldest', 'riskiest']).default('oldest'),
})

export const CONSOLE = routes({
  consoleInbox: {
    method: 'GET',
    path: '/console',
    callers: ['console'],
    action: 'approval.list',
    media: 'text/html',
    summary: 'The approvals that wait; without a session, the form to sign in',
    query: asked,
    status: 200,
    result: z.string(),
    failures: ['signed_out'],
  },
  consoleSignIn: {
    method: 'POST',
    path: '/console/sign-in',
    callers: ['console'],
    action: null,
    media: 'text/html',
    summary: 'Open a session with an operator’s key; the answer sets its cookie',
    status: 200,
    result: z.string(),
    failures: ['unauthenticated', 'cross_origin', 'too_many_tries'],
  },
  consoleSignOut: {
    method: 'POST',
    path: '/console/sign-out',
    callers: ['console'],
    action: null,
    media: 'text/html',
    summary: 'End the session',
    status: 200,
    result: z.string(),
    failures: ['signed_out', 'cross_origin'],
  },
  consoleApproval: {
    method: 'GET',
    path: '/console/approvals/{id}',
    callers: ['console'],
    action: 'approval.list',
    params: approval,
    media: 'text/html',
    summary: 'One approval, with the form to answer it',
    status: 200,
    result: z.string(),
    failures: ['signed_out', 'not_found'],
  },
  consoleAnswer: {
    method: 'POST',
    path: '/console/approvals/{id}',
    callers: ['console'],
    action: 'approval.decide',
    params: approval,
    media: 'text/html',
    summary: 'The answer given on that page',
    status: 200,
    result: z.string(),
    failures: ['signed_out', 'cross_origin', 'not_found', 'already_answered', 'approval_expired'],
  },
  consoleDeny: {
    method: 'POST',
    path: '/console/approvals',
    callers: ['console'],
    action: 'approval.decide',
    media: 'text/html',
    summary: 'Deny those that were chosen in the inbox',
    status: 200,
    result: z.string(),
    failures: ['signed_out', 'cross_origin'],
  },
  consoleHistory: {
    method: 'GET',
    path: '/console/history',
    callers: ['console'],
    action: 'approval.list',
    media: 'text/html',
    summary: 'The approvals that ended, newest first',
    status: 200,
    result: z.string(),
    failures: ['signed_out'],
  },
  consoleEvents: {
    method: 'GET',
    path: '/console/events',
    callers: ['console'],
    action: 'approval.list',
    query: asked.extend({ approval: z.string().max(64).default(''), after: number(Number.MAX_SAFE_INTEGER).default(0) }),
    media: 'text/event-stream',
    summary: 'The inbox as it changes, until the session ends or `approval` does; `Last-Event-ID` resumes',
    status: 200,
    result: z.string(),
    failures: ['signed_out'],
  },
})
