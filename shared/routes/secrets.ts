// Routes for secrets. No route returns a value.

import { z } from 'zod'
import { Name } from '../fields.ts'
import { Secret, SecretSpec } from '../wire/secrets.ts'
import { list, routes } from './route.ts'

const named = z.strictObject({ name: Name })

export const SECRETS = routes({
  listSecrets: {
    method: 'GET',
    path: '/v1/secrets',
    callers: ['operator'],
    action: 'secret.read',
    summary:
      'List secrets: name, version, the tools that may use it, the hosts it is bound to, who stored it and when; never a value',
    status: 200,
    result: list(Secret),
    failures: [],
  },
  putSecret: {
    method: 'PUT',
    path: '/v1/secrets/{name}',
    callers: ['operator'],
    action: 'secret.write',
    params: named,
    summary:
      'Store a secret or its next version; calls that are claimed from then on get it, and nobody can read it back',
    body: SecretSpec,
    status: 200,
    result: Secret,
    failures: ['limit_reached'],
  },
  deleteSecret: {
    method: 'DELETE',
    path: '/v1/secrets/{name}',
    callers: ['operator'],
    action: 'secret.write',
    params: named,
    summary: 'Delete a secret; calls of tools that need it are denied from then on',
    status: 200,
    result: z.strictObject({ done: z.literal(true) }),
    failures: ['not_found'],
  },
})
