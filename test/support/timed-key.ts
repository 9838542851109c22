// Makes idempotency keys in the way our clients do.

import { randomUUID } from 'node:crypto'

/** A UUID of version 7, which contains a time. */
export function timedKey(at = Date.now()): string {
  const time = at.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`
}
