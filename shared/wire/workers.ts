// Messages between the edge and its workers. `routes/workers.ts` lists their routes.

import { z } from 'zod'
import { Envelope } from '../evidence/dsse.ts'
import { PublicKey } from '../evidence/ed25519.ts'
import { CallState } from '../evidence/statement.ts'
import { AdvertisedTier, WorkerProof, WorkerResources } from '../evidence/worker-proof.ts'
import { CallId, Name, RunId, Sha256, Time, WorkerId } from '../fields.ts'
import { LIMITS } from '../limits.ts'
import { ProcessPlan, Tier } from '../plan/plan.ts'

export const Enrolment = z.strictObject({
  token: z.string().max(200),
  x: PublicKey,
  name: Name,
  tiers: z.array(Tier),
})
export const Enrolled = z.strictObject({
  worker: WorkerId,
  tenant: z.string(),
  pool: Name,
  edge: z.strictObject({ kid: z.string(), x: PublicKey }),
})
/** A link from the worker's key to its next one, signed by both (shared/evidence/keys.ts). */
export const KeyRotation = z.strictObject({ link: Envelope })
export const RotatedKey = z.strictObject({ kid: z.string() })
export const Worker = z.strictObject({
  id: WorkerId,
  name: Name,
  pool: Name,
  kid: z.string(),
  /** The tiers that it may run now. */
  tiers: z.array(Tier),
  /** The same, with the names of profiles. */
  advertised: z.array(AdvertisedTier),
  /** The abilities that calls may rely on: proven recently, and still reported in heartbeats. */
  means: WorkerResources,
  enrolled_at_ms: Time,
  seen_at_ms: Time.nullable(),
  /**
   * When the edge last saw two processes use this worker's key at the same time: one of them is a
   * copy.
   */
  doubled_at_ms: Time.nullable(),
  status: z.enum(['active', 'revoked']),
  /** Its last proof. */
  proof: WorkerProof.nullable(),
})
/** The same with the worker's signature, for offline verification. */
export const ProvenWorker = Worker.extend({ envelope: Envelope.nullable() })
export type ProvenWorker = z.infer<typeof ProvenWorker>

/**
 * A random id of the process that serves as a worker: another process with the same key has another
 * one (D6).
 */
const ProcessId = z.string().regex(/^[A-Za-z0-9_-]{22}$/)

/**
 * A claim reports what the worker has at this moment. It can only narrow the proof: what is not
 * reported is absent.
 */
export const ClaimRequest = WorkerResources.partial({ egress: true, cgroups: true, profiles: true }).extend({
  run: RunId,
  call: CallId,
  process: ProcessId.optional(),
})
/** The answer to a claim, given once: plan, arguments, and the grant that binds them. */
export const Claim = z.strictObject({
  grant: Envelope,
  plan: ProcessPlan,
  args: z.record(z.string(), z.unknown()),
  facts_digest: Sha256,
  /**
   * The values of the plan's secrets. The grant doesn't contain them, because grants are stored.
   */
  secrets: z.record(Name, z.string().max(LIMITS.secret_chars)),
})
export type Claim = z.infer<typeof Claim>

/** A part of an input file; the last may be shorter. */
export const FilePart = z.strictObject({ data: z.base64().max(Math.ceil(LIMITS.file_part_bytes / 3) * 4) })

const Chunk = z.base64().max(Math.ceil(LIMITS.output_chunk_bytes / 3) * 4)
const StreamName = z.enum(['stdout', 'stderr'])
export const OutputChunk = z.strictObject({
  fence: z.int().min(1),
  stream: StreamName,
  offset: z.int().min(0),
  data: Chunk,
})
export const Settlement = z.strictObject({
  fence: z.int().min(1),
  envelope: Envelope,
  /** The stored part of each stream: `kept` bytes, and if it was cut, head and then tail. */
  output: z.strictObject({ stdout: z.base64(), stderr: z.base64() }),
})
export type Settlement = z.infer<typeof Settlement>
export const Settled = z.strictObject({ call: CallId, state: CallState, attestation: Envelope })
export const ProofSubmission = z.strictObject({ envelope: Envelope })
/** The tiers that the worker may run. */
export const ProvenTiers = z.strictObject({ tiers: z.array(Tier) })
export const Heartbeat = z.strictObject({
  tiers: z.array(Tier),
  running: z.array(z.strictObject({ call: CallId, fence: z.int() })).max(1_000),
  process: ProcessId.optional(),
  /** The process is stopping, so the worker's next process may serve at once. */
  leaving: z.literal(true).optional(),
})
export const HeartbeatAnswer = z.strictObject({ stop: z.array(CallId), now_ms: Time })
