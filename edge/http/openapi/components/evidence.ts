// Evidence: attestations, journals, snapshots and the keys that verify them.

import { Bundle } from '../../../../shared/evidence/bundle.ts'
import { Envelope } from '../../../../shared/evidence/dsse.ts'
import { JournalEntry, ShadowDecision } from '../../../../shared/evidence/journal.ts'
import { Keys } from '../../../../shared/evidence/keys.ts'
import { PolicySnapshot } from '../../../../shared/evidence/policy-snapshot.ts'
import { WorkerProof } from '../../../../shared/evidence/worker-proof.ts'
import { type Component, object, opaque } from './component.ts'

export const EVIDENCE: Readonly<Record<string, Component>> = {
  Bundle: object(Bundle, 'The attestation of a call, to verify it offline.', {
    format: 'The format of this document.',
    envelope: 'The signed statement about the end of the call.',
    grant: 'The permission under which it ran; null if nothing ran.',
    call: 'What the digest of the call covers: recompute it from this.',
    removed:
      'What the retention rule of the tenant has removed, signed by the edge. Without arguments the plan is null, too.',
    snapshot: 'What applied when the call was decided. The statement has its digest.',
    journal: 'The journal of the run from the call’s first entry to the one that ends it.',
    log: 'The place of that last entry in the tenant’s log, its inclusion proof, and the signed head of the log.',
  }),
  Envelope: object(Envelope, 'A DSSE envelope: signed bytes, and the signatures over them.', {
    payloadType: 'The type of the payload.',
    payload: 'The signed document, in base64.',
    signatures: 'Ed25519 signatures, each with the id of its key.',
  }),
  JournalEntry: object(JournalEntry, 'One entry of a hash-chained journal.', {
    seq: 'Its number, from 1.',
    at_ms: 'When it was written, by the edge’s clock.',
    kind: 'What happened.',
    call: 'The call that it happened to; null for the run itself.',
    body: 'The facts of the event.',
    prev: 'The hash of the entry before it.',
    hash: 'The digest of this entry, which includes `prev`.',
    shadow: 'For operators: the decision of the set in shadow, whose digest `hash` covers.',
  }),
  ShadowDecision: object(ShadowDecision, 'What a policy set in shadow would have decided.', {
    version: 'The version in shadow.',
    since_ms: 'Since when it has been in shadow.',
    from: 'What was decided.',
    to: 'What it would have decided.',
    code: 'The code of its decision.',
    policies: 'The policies that determined its decision.',
    salt: 'Random, so that the digest in the journal reveals nothing.',
  }),
  PolicySnapshot: opaque(PolicySnapshot, 'What applied to an agent and its run when a call was decided.'),
  WorkerProof: opaque(WorkerProof, 'What a worker has shown about its own sandbox.'),
  Keys: object(Keys, 'The public keys of an edge and of one tenant’s workers.', {
    format: 'The format of this document.',
    tenant: 'The tenant whose workers are listed.',
    keys: 'Ed25519 keys, with the time in which each one signs.',
    chain: 'For each edge key after the first: a link that the key before it and the key itself have signed.',
  }),
}
