// A fake edge: a real HTTP server on loopback that speaks the worker's routes, and misbehaves when
// a test says so. It makes no decisions; tests set its state. It checks what it accepts with the
// edge's own code.

import { generateKeyPairSync } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { checkSettlement } from '../../../edge/call/settlement.ts'
import { BODY_BOUNDS, digestOf, type Json, parseJson, sha256 } from '../../../shared/bytes/json.ts'
import {
  countersign,
  type Envelope,
  kidOf,
  type PrivateJwk,
  type Signer,
  signerFromJwk,
} from '../../../shared/evidence/dsse.ts'
import { readSignatureInput, signatureHolds } from '../../../shared/evidence/http-signature.ts'
import {
  callDigest,
  type Facts,
  type Grant,
  type Statement,
  sealGrant,
} from '../../../shared/evidence/statement.ts'
import { provenResources, readProof, type WorkerProof } from '../../../shared/evidence/worker-proof.ts'
import { type Code, FAILURES } from '../../../shared/failures.ts'
import { callId, newWorkerId, ulid } from '../../../shared/ids.ts'
import { DEFAULT_LIMITS, LIMITS } from '../../../shared/limits.ts'
import type { InputFile } from '../../../shared/plan/call-files.ts'
import type { ProcessPlan as Plan, Stdin } from '../../../shared/plan/plan.ts'
import { ROUTES, type RouteName } from '../../../shared/routes/all.ts'
import type { Route } from '../../../shared/routes/route.ts'
import type { Claim, Settlement } from '../../../shared/wire/workers.ts'

type WorkerRoute = Extract<
  RouteName,
  'enrol' | 'claim' | 'readInput' | 'putOutput' | 'output' | 'settle' | 'prove' | 'heartbeat' | 'keys'
>
const WORKER_ROUTES: readonly WorkerRoute[] = [
  'enrol',
  'claim',
  'readInput',
  'putOutput',
  'output',
  'settle',
  'prove',
  'heartbeat',
  'keys',
]

export type FakeCall = {
  readonly run: string
  readonly call: string
  readonly tool: Facts['tool']
  readonly args: Record<string, Json>
  readonly secrets: Readonly<Record<string, string>>
  readonly plan: Plan
  readonly folder: Grant['folder']
  state: 'granted' | 'running' | 'ended'
  fence: number
  grant: Envelope | undefined
  cancelled: boolean
  /** The accepted settlement; `settlements` counts all attempts. */
  settled: { statement: Statement; stdout: Buffer; stderr: Buffer; envelope: Envelope } | undefined
  claims: number
  settlements: number
  streamed: Buffer
}

type Reply = { status: number; body: unknown }
/**
 * Replaces an answer: by another reply; `cut` drops the connection; `hang` never answers; `html` is
 * a gateway's error page. With `after`, the edge handles the request first.
 */
export type Misbehaviour = {
  readonly route: WorkerRoute
  readonly after: boolean
  readonly times: number
  readonly reply: Reply | 'cut' | 'hang' | 'html'
}

export type Proposal = {
  readonly argv: readonly string[]
  readonly args?: Record<string, Json>
  readonly stdin?: Stdin
  readonly tier?: 'B' | 'C'
  readonly timeout_ms?: number
  readonly output_bytes?: number
  readonly workspace_bytes?: number
  /** The run of the call; `folder` makes the call share the run's folder, which is new or kept. */
  readonly run?: string
  readonly folder?: Grant['folder']
  /** The call's input files, by path. */
  readonly files?: Readonly<Record<string, Buffer>>
  /** Collects output files. */
  readonly outputs?: true
  readonly secrets?: Readonly<Record<string, string>>
}

const newKey = (): PrivateJwk =>
  generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk // Ed25519
export const newSigner = (): Signer => signerFromJwk(newKey())

/**
 * The edge's side of an enrolment: its own key, which the worker has pinned, and the worker's key.
 */
export type Enrolment = {
  readonly key: PrivateJwk
  readonly worker: { readonly id: string; readonly x: string }
}
const problem = (code: Code, detail: string): Reply => ({
  status: FAILURES[code].status,
  body: { type: 'about:blank', status: FAILURES[code].status, code, detail },
})

export class FakeEdge {
  readonly tenant = 'default'
  readonly pool = 'default'
  readonly token = 'a-token-that-works-once'
  readonly calls = new Map<string, FakeCall>()
  /** Input files by digest; a test may replace the bytes. */
  readonly files = new Map<string, Buffer>()
  /** All requests that reached a route, in order. */
  readonly requests: {
    route: WorkerRoute
    headers: IncomingMessage['headers']
    body: unknown
    refused: Code | undefined
  }[] = []
  worker: { id: string; x: string } | undefined
  readonly #key = newKey()
  signer = signerFromJwk(this.#key)
  /** How far this edge's clock is ahead of the host's. */
  ahead_ms = 0
  /** Alters the answer to a claim. */
  alterClaim: (claim: Claim, grant: Grant) => Claim = (claim) => claim
  revoked = false
  /** Whether it accepts output files. */
  hasRoom = true
  /** The proofs that the worker sent, oldest first. */
  readonly proofs: WorkerProof[] = []
  /** The number of connections so far. */
  connections = 0
  readonly #misdeeds: (Misbehaviour & { left: number })[] = []
  readonly #nonces = new Set<string>()
  readonly #server = createServer((request, response) => void this.#serve(request, response))
  readonly #sockets = new Set<Socket>()
  #port = 0

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  constructor() {
    this.#server.on('connection', (socket) => {
      this.connections += 1
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
  }

  /** Starts, on the same port as before if there was one. */
  start(): Promise<void> {
    return new Promise((done, fail) => {
      this.#server.once('error', fail)
      this.#server.listen(this.#port, '127.0.0.1', () => {
        this.#port = (this.#server.address() as AddressInfo).port // the address of a TCP server
        done()
      })
    })
  }

  /** Stops like a crash: all connections break. */
  stop(): Promise<void> {
    const closed = new Promise<void>((done) => this.#server.close(() => done()))
    for (const socket of this.#sockets) socket.destroy()
    return closed
  }

  enrolment(): Enrolment {
    if (this.worker === undefined) throw new Error('no worker is enrolled')
    return { key: this.#key, worker: this.worker }
  }

  /** An edge that has already enrolled this worker. */
  resume({ key, worker }: Enrolment): void {
    this.signer = signerFromJwk(key)
    this.worker = worker
  }

  misbehave(route: WorkerRoute, reply: Misbehaviour['reply'], { after = false, times = 1 } = {}): void {
    this.#misdeeds.push({ route, reply, after, times, left: times })
  }

  /** Stops misbehaving: removes all changed answers. */
  behave(): void {
    this.#misdeeds.length = 0
    this.alterClaim = (claim) => claim
  }

  propose({
    argv,
    args = {},
    stdin = 'none',
    tier = 'C',
    timeout_ms = 10_000,
    output_bytes = DEFAULT_LIMITS.output_bytes,
    workspace_bytes = DEFAULT_LIMITS.workspace_bytes,
    run = `run_${ulid(Date.now())}`,
    folder,
    files,
    outputs,
    secrets = {},
  }: Proposal): FakeCall {
    const plan: Plan = {
      tier,
      executor: { kind: 'process', argv: [...argv], stdin, env: {}, cwd: '' },
      egress: tier === 'C' ? { mode: 'strict', hosts: [] } : { mode: 'none', hosts: [] },
      secrets: Object.keys(secrets),
      workspace: folder === undefined ? 'call' : 'run',
      ...(files === undefined
        ? {}
        : { files: Object.entries(files).map(([path, bytes]) => this.#inputFile(path, bytes)) }),
      ...(outputs === undefined ? {} : { outputs }),
      limits: { ...DEFAULT_LIMITS, timeout_ms, output_bytes, workspace_bytes },
    }
    const call: FakeCall = {
      run,
      call: callId(run, 1 + [...this.calls.values()].filter((call) => call.run === run).length),
      folder,
      args,
      secrets,
      plan,
      tool: { name: 'test_tool', version: 1, digest: digestOf('test_tool') },
      state: 'granted',
      fence: 0,
      grant: undefined,
      cancelled: false,
      settled: undefined,
      claims: 0,
      settlements: 0,
      streamed: Buffer.alloc(0),
    }
    this.calls.set(call.call, call)
    return call
  }

  #inputFile(path: string, bytes: Buffer): InputFile {
    this.files.set(sha256(bytes), bytes)
    return { path, sha256: sha256(bytes), bytes: bytes.byteLength }
  }

  grantFor({ run, call, tool, args, plan, folder, fence }: FakeCall, worker: string): Grant {
    const digest = callDigest({ tenant: this.tenant, run, call, tool, arguments: args, plan })
    return {
      facts: {
        tenant: this.tenant,
        run,
        call,
        agent: 'tester',
        session: run,
        tool,
        digest,
        args_sha256: digestOf(args),
        plan_sha256: digestOf(plan),
        limits: plan.limits,
        egress: plan.egress,
        decision: {
          effect: 'allow',
          policies: ['test'],
          policy_set: digestOf('policies'),
          snapshot: digestOf('snapshot'),
        },
        approval: null,
      },
      worker,
      fence,
      issued_at_ms: this.now(),
      deadline_ms: this.now() + plan.limits.timeout_ms + LIMITS.settle_grace_ms,
      ...(folder === undefined ? {} : { folder }),
    }
  }

  now(): number {
    return Date.now() + this.ahead_ms
  }

  count(route: WorkerRoute): number {
    return this.requests.filter((entry) => entry.route === route).length
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer) // no encoding is set
    const raw = Buffer.concat(chunks)
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    const route = WORKER_ROUTES.find((name) => {
      const { method, path: pattern } = ROUTES[name]
      return method === request.method && new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(path)
    })
    if (route === undefined) return this.#send(response, problem('not_found', 'no such route'))
    const misdeed = this.#misdeeds.find((candidate) => candidate.route === route && candidate.left > 0)
    if (misdeed !== undefined) misdeed.left -= 1
    if (misdeed?.after === false)
      this.requests.push({ route, headers: request.headers, body: undefined, refused: undefined })
    const reply = misdeed?.after === false ? undefined : this.#answer(route, path, request, raw)
    const outcome = misdeed === undefined ? reply : misdeed.reply
    if (outcome === 'cut' || outcome === undefined) return void request.socket.destroy()
    if (outcome === 'hang') return
    if (outcome === 'html')
      return void response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>')
    this.#send(response, outcome)
  }

  #send(response: ServerResponse, { status, body }: Reply): void {
    const text = JSON.stringify(body)
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(text),
      date: new Date(this.now()).toUTCString(),
    }
    response.writeHead(status, headers).end(text)
  }

  #answer(route: WorkerRoute, path: string, request: IncomingMessage, raw: Buffer): Reply {
    const read: Route = ROUTES[route]
    const parsed =
      raw.byteLength === 0
        ? undefined
        : parseJson(raw, { ...BODY_BOUNDS, bytes: read.body_bytes ?? BODY_BOUNDS.bytes })
    const body = read.body?.safeParse(parsed?.ok ? parsed.value : undefined)
    const note = (reply: Reply): Reply => {
      // `problem` made it.
      const refused = reply.status >= 400 ? (reply.body as { code: Code }).code : undefined
      this.requests.push({ route, headers: request.headers, body: body?.data, refused })
      return reply
    }
    if (route === 'keys') return note(this.#keys())
    const [, , , , , , digest = '', part] = path.split('/')
    if (route === 'readInput')
      return note(this.#refuses(request, path, raw) ?? this.#file(digest, Number(part)))
    if (route === 'putOutput') return note(this.#refuses(request, path, raw) ?? this.#put(digest, raw))
    if (body === undefined || !body.success) return note(problem('invalid_request', 'the body does not fit'))
    if (route === 'enrol') return note(this.#enrol(body.data as { token: string; x: string }))
    const refusal = this.#refuses(request, path, raw)
    if (refusal !== undefined) return note(refusal)
    // Each body was parsed by its route's schema just now.
    if (route === 'claim') return note(this.#claim(body.data as { run: string; call: string }))
    if (route === 'settle') return note(this.#settle(body.data as Settlement))
    if (route === 'output')
      return note(
        this.#output(path.split('/')[4] ?? '', body.data as { fence: number; offset: number; data: string }),
      )
    if (route === 'prove') return note(this.#prove(body.data as { envelope: Envelope }))
    return note(this.#heartbeat(body.data as { running: { call: string; fence: number }[] }))
  }

  /** Checks signature, clock and nonce like the edge (K01, K02). */
  #refuses(request: IncomingMessage, path: string, raw: Buffer): Reply | undefined {
    const header = (name: string): string | undefined => [request.headers[name]].flat()[0]
    const input = readSignatureInput(header('signature-input'))
    const signed = { method: request.method ?? '', authority: request.headers.host ?? '', path, body: raw }
    const given = { digest: header('content-digest'), signature: header('signature') }
    if (
      this.worker === undefined ||
      this.revoked ||
      input?.worker !== this.worker.id ||
      !signatureHolds(signed, input, given, this.worker.x)
    ) {
      return problem('bad_signature', 'the signature does not hold')
    }
    if (Math.abs(this.now() / 1000 - input.created) > LIMITS.signature_age_s)
      return problem('clock_skew', 'your clock is off')
    if (this.#nonces.has(input.nonce)) return problem('replayed', 'seen before')
    this.#nonces.add(input.nonce)
    return undefined
  }

  /** Checks a proof with the edge's own code. */
  #prove({ envelope }: { envelope: Envelope }): Reply {
    if (this.worker === undefined) return problem('bad_signature', 'nobody is enrolled')
    const { id, x } = this.worker
    const proof = readProof(envelope, { tenant: this.tenant, id, kid: kidOf(x), x })
    if (!proof.ok) return problem('proof_invalid', proof.error)
    this.proofs.push(proof.value)
    return { status: 200, body: { tiers: provenResources(proof.value).tiers } }
  }

  #keys(): Reply {
    const { kid, x } = this.signer
    return {
      status: 200,
      body: {
        format: 'countersign-keys/v2',
        tenant: this.tenant,
        keys: [
          { kid, kty: 'OKP', crv: 'Ed25519', x, role: 'edge', from_ms: 0, until_ms: null, status: 'active' },
        ],
        chain: [],
      },
    }
  }

  #enrol({ token, x }: { token: string; x: string }): Reply {
    if (token !== this.token || this.worker !== undefined)
      return problem('enrolment_invalid', 'the token is spent or was never one')
    this.worker = { id: newWorkerId(Date.now()), x }
    const { kid, x: edge } = this.signer
    return {
      status: 201,
      body: { worker: this.worker.id, tenant: this.tenant, pool: this.pool, edge: { kid, x: edge } },
    }
  }

  #claim({ call: id }: { run: string; call: string }): Reply {
    const call = this.calls.get(id)
    const worker = this.worker?.id ?? ''
    if (call === undefined || call.state === 'ended')
      return problem('not_claimable', 'the call is not waiting for a worker')
    call.claims += 1
    if (call.grant === undefined) {
      call.fence += 1
      call.state = 'running'
      call.grant = sealGrant(this.grantFor(call, worker), this.signer)
    }
    const grant = this.grantFor(call, worker)
    const claim: Claim = {
      grant: call.grant,
      plan: call.plan,
      args: call.args,
      facts_digest: grant.facts.digest,
      secrets: call.secrets,
    }
    return { status: 200, body: this.alterClaim(claim, grant) }
  }

  #put(digest: string, bytes: Buffer): Reply {
    if (sha256(bytes) !== digest) return problem('digest_mismatch', 'other bytes')
    if (!this.hasRoom) return problem('storage_full', 'no room')
    this.files.set(digest, bytes)
    return { status: 200, body: { sha256: digest, bytes: bytes.byteLength } }
  }

  #file(digest: string, part: number): Reply {
    const bytes = this.files
      .get(digest)
      ?.subarray(part * LIMITS.file_part_bytes, (part + 1) * LIMITS.file_part_bytes)
    return bytes === undefined
      ? problem('not_found', 'no such file')
      : { status: 200, body: { data: bytes.toString('base64') } }
  }

  #settle(settlement: Settlement): Reply {
    // `checkSettlement` parses it strictly below.
    const named = JSON.parse(Buffer.from(settlement.envelope.payload, 'base64').toString()) as Statement
    const call = this.calls.get(named.subject[0].name)
    if (call !== undefined) call.settlements += 1
    if (call?.settled !== undefined && call.settled.envelope.payload === settlement.envelope.payload) {
      return {
        status: 200,
        body: {
          call: call.call,
          state: call.settled.statement.predicate.state,
          attestation: call.settled.envelope,
        },
      }
    }
    if (
      call?.state !== 'running' ||
      call.fence !== settlement.fence ||
      call.grant === undefined ||
      this.worker === undefined
    ) {
      return problem('stale_fence', 'the call has moved on')
    }
    const worker = { ...this.worker, kid: kidOf(this.worker.x) }
    const { grant, plan, cancelled: cancelRequested } = call
    const checked = checkSettlement(settlement, { worker, grant, plan, cancelRequested, now_ms: this.now() })
    if (!checked.ok) return problem(checked.error.code, checked.error.detail)
    const { statement, kept, ending } = checked.value
    const envelope = countersign(settlement.envelope, this.signer)
    call.state = 'ended'
    call.settled = { statement, stdout: kept.stdout, stderr: kept.stderr, envelope }
    return { status: 200, body: { call: call.call, state: ending.state, attestation: envelope } }
  }

  #output(id: string, { fence, offset, data }: { fence: number; offset: number; data: string }): Reply {
    const call = this.calls.get(id)
    if (call?.state !== 'running' || call.fence !== fence)
      return problem('stale_fence', 'the call is not running under this fence')
    if (offset === call.streamed.byteLength)
      call.streamed = Buffer.concat([call.streamed, Buffer.from(data, 'base64')])
    return { status: 200, body: { next: call.streamed.byteLength, stop: call.cancelled } }
  }

  #heartbeat({ running }: { running: { call: string; fence: number }[] }): Reply {
    const stop = running.flatMap(({ call: id, fence }) => {
      const call = this.calls.get(id)
      return call?.state === 'running' && call.fence === fence && !call.cancelled ? [] : [id]
    })
    return { status: 200, body: { stop, now_ms: this.now() } }
  }
}
