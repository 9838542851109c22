// A redaction as a tenant has it, and the secret that the tests of it hide.

import { markerFor, Redaction } from '../../../edge/secrets/redaction.ts'

export const SECRET = 'hunter2-hunter2'
export const HIDDEN = /«redacted, mark [0-9a-f]{16}»/
export const redaction = new Redaction(markerFor(Buffer.alloc(32), 'default'))
export const redact = (value: unknown): unknown => redaction.of(value)
export const shown = (value: unknown): string => JSON.stringify(redact(value))
