// A worker driven by the test: really enrolled, with a real key and signed requests. It runs
// nothing; the test decides what it reports.

import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { digestOf, sha256 } from '../../../shared/bytes/json.ts'
import {
  type Envelope,
  type PrivateJwk,
  payloadBytes,
  type Signer,
  seal,
  signerFromJwk,
} from '../../../shared/evidence/dsse.ts'
import { signRequest } from '../../../shared/evidence/http-signature.ts'
import {
  endingOf,
  type Grant,
  SANDBOXES,
  STATEMENT_TYPE,
  type Statement,
  statementOf,
} from '../../../shared/evidence/statement.ts'
import { PROOF_TYPE, type WorkerProof, type WorkerResources } from '../../../shared/evidence/worker-proof.ts'
import { attestationId, splitId } from '../../../shared/ids.ts'
import type { OutputFiles } from '../../../shared/plan/call-files.ts'
import type { Outcome, StreamSummary, Tier } from '../../../shared/plan/plan.ts'
import { type Client, type Credentials, client } from '../../../shared/routes/client.ts'
import type { Claim, Settlement } from '../../../shared/wire/workers.ts'
import { notStarted } from '../../../worker/calls/attestation.ts'
import { unwrap } from '../fixtures.ts'

// Ed25519.
export const newSigner = (): Signer =>
  signerFromJwk(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk)

/** The reported execution, before it is signed. */
export type ReportedExecution = {
  readonly outcome?: Outcome
  readonly stdout?: string | Uint8Array
  readonly stderr?: string | Uint8Array
  readonly files?: OutputFiles
  readonly cgroup?: boolean
}

export class PeerWorker {
  readonly id: string
  readonly pool: string
  readonly signer: Signer
  readonly client: Client
  /** The random id of its process. */
  readonly process = randomBytes(16).toString('base64url')
  readonly #url: string
  readonly #enrolled: { worker: string; tenant: string; pool: string }
  readonly #tenant: string
  /** The edge's latest epoch, with which its nonces begin. */
  epoch = ''

  private constructor(
    url: string,
    signer: Signer,
    enrolled: { worker: string; tenant: string; pool: string },
  ) {
    this.#url = url
    this.signer = signer
    this.id = enrolled.worker
    this.#enrolled = enrolled
    this.#tenant = enrolled.tenant
    this.pool = enrolled.pool
    this.client = this.as(signer)
  }

  /** Another process with the same key, as on a host that was cloned. */
  copy(): PeerWorker {
    return new PeerWorker(this.#url, this.signer, this.#enrolled)
  }

  static async enrol(
    url: string,
    operator: Client,
    pool: string,
    tiers: Tier[] = ['B', 'C'],
  ): Promise<PeerWorker> {
    const { token } = unwrap(await operator('createEnrolment', { body: { pool } }))
    const signer = newSigner()
    const enrolled = unwrap(await client(url)('enrol', { body: { token, x: signer.x, name: 'peer', tiers } }))
    const peer = new PeerWorker(url, signer, enrolled)
    unwrap(await peer.prove(tiers))
    return peer
  }

  /** Sends a signed proof of these tiers. */
  prove(tiers: readonly Tier[], bend: (proof: WorkerProof) => unknown = (proof) => proof) {
    const part = (ok: boolean) => ({ ok, lack: null, checks: [{ name: 'set by a test', ok, seen: '' }] })
    const proof: WorkerProof = {
      format: 'countersign-worker-proof/v1',
      tenant: this.#tenant,
      worker: this.id,
      at_ms: Date.now(),
      took_ms: 1,
      versions: { kernel: '6.1.0', bubblewrap: '0.8.0', util_linux: '2.38.1', node: 'v24.0.0' },
      tiers: { B: part(tiers.includes('B')), C: part(tiers.includes('C')) },
      egress: part(tiers.includes('C')),
      cgroups: part(true),
    }
    return this.client('prove', { body: { envelope: seal(PROOF_TYPE, bend(proof), this.signer) } })
  }

  /** Signs as this worker; with `signer`, as an impostor. */
  credentials(signer = this.signer, nowMs = () => Date.now()): Credentials {
    return this.credentialsOf({ worker: this.id, tenant: this.#tenant, signer }, nowMs)
  }

  credentialsOf(
    { worker, tenant, signer }: { worker: string; tenant: string; signer: Signer },
    nowMs = () => Date.now(),
  ): Credentials {
    return ({ method, url, body }) =>
      signRequest(
        { method, authority: url.host, path: url.pathname, body },
        { tenant, worker, key: signer.key, epoch: this.epoch },
        nowMs(),
      )
  }

  /** A client that learns the edge's epoch like a worker. */
  as(signer: Signer, nowMs?: () => number): Client {
    const send = client(this.#url, this.credentials(signer, nowMs))
    return async (name, input) => {
      const answer = await send(name, input)
      if (answer.ok || answer.error.code !== 'stale_epoch') return answer
      this.epoch = answer.error.epoch ?? ''
      return send(name, input)
    }
  }

  claim(call: string, tiers: Tier[] = ['B', 'C'], means: Partial<WorkerResources> = {}) {
    const body = {
      run: splitId(call).run,
      call,
      tiers,
      egress: tiers.includes('C'),
      process: this.process,
      ...means,
    }
    return this.client('claim', { body })
  }

  heartbeat(running: { call: string; fence: number }[] = [], leaving?: true) {
    const body = {
      tiers: ['B' as const, 'C' as const],
      running,
      process: this.process,
      ...(leaving === undefined ? {} : { leaving }),
    }
    return this.client('heartbeat', { body })
  }

  /** Claims and settles a call without running it. */
  async run(call: string, seen: ReportedExecution = {}) {
    return unwrap(await this.settle(unwrap(await this.claim(call)), seen))
  }

  settle(claim: Claim, seen: ReportedExecution = {}) {
    return this.client('settle', { body: this.settlement(claim, seen) })
  }

  settlement(
    claim: Claim,
    seen: ReportedExecution = {},
    bend: (statement: Statement) => unknown = (statement) => statement,
  ): Settlement {
    return {
      fence: grantOf(claim.grant).fence,
      envelope: seal(STATEMENT_TYPE, bend(this.statement(claim, seen)), this.signer),
      output: { stdout: base64(seen.stdout), stderr: base64(seen.stderr) },
    }
  }

  statement(
    { grant: envelope, plan }: Claim,
    { outcome = { kind: 'exit', code: 0 }, stdout = '', stderr = '', files, cgroup }: ReportedExecution = {},
  ): Statement {
    const grant = grantOf(envelope)
    const { call, run } = grant.facts
    const now = Date.now()
    return statementOf({
      attestation_id: attestationId(run, splitId(call).n),
      ...endingOf(outcome),
      facts: grant.facts,
      grant: {
        sha256: digestOf(grant),
        worker: grant.worker,
        fence: grant.fence,
        deadline_ms: grant.deadline_ms,
      },
      execution:
        outcome.kind === 'refused'
          ? notStarted(outcome, now).execution
          : {
              outcome,
              stdout: summary(stdout),
              stderr: summary(stderr),
              connections: [],
              executor: SANDBOXES[plan.tier],
              sandbox_enforcement: plan.egress.mode,
              ...(files === undefined ? {} : { files }),
              ...(cgroup === undefined ? {} : { cgroup }),
              profile_sha256: grant.proven?.profile_sha256 ?? sha256('the profile of a peer'),
              argv_sha256: sha256(plan.executor.argv.join('\0')),
              limits: plan.limits,
              started_at_ms: now,
              ended_at_ms: now,
            },
    })
  }
}

const base64 = (text: string | Uint8Array = ''): string => Buffer.from(text).toString('base64')
const summary = (text: string | Uint8Array): StreamSummary => {
  const bytes = Buffer.byteLength(text)
  return { bytes, sha256: sha256(text), kept: bytes, truncated: false }
}

// Sealed by the edge.
export const grantOf = (envelope: Envelope): Grant =>
  JSON.parse(Buffer.from(payloadBytes(envelope)).toString()) as Grant
