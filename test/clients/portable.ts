// The modules of shared/ as the client package bundles them, without Node: what test/clients
// compares with the edge's own.

import { verify } from '../../clients/typescript/src/verify.ts'
import { digestOf, parseJson } from '../../shared/bytes/json.ts'
import { isSignedBy } from '../../shared/evidence/ed25519.ts'

export const portable = { verify, digestOf, parseJson, isSignedBy }
