// The workers of a tenant: what each has proven about its sandboxes and when, and why a tier gets
// no calls.

import type { ProofPart, WorkerProof, WorkerResources } from '../../shared/evidence/worker-proof.ts'
import type { ProvenWorker } from '../../shared/wire/workers.ts'
import { Time } from '../pages/approval-page.tsx'
import { escapeConfusables } from '../platform/visible-text.ts'
import { ConsolePage } from './frame.tsx'
import type { Session } from './session.ts'

export function workersPage(session: Session, workers: readonly ProvenWorker[]) {
  const active = workers.filter(({ status }) => status === 'active')
  const revoked = workers.length - active.length
  return (
    <ConsolePage title="Workers" session={session} place="/console/workers">
      <h1>Workers</h1>
      <p class="quiet">
        Each worker attacks its own sandboxes when it starts and every ten minutes, and signs the results. A
        tier that it has not proven gets no calls.
        {revoked === 0 ? '' : ` ${revoked} ${revoked === 1 ? 'worker was' : 'workers were'} revoked.`}
      </p>
      {active.length === 0 ? (
        <p class="empty">
          No worker is enrolled, so no process can run. Make a token for one with{' '}
          <code>countersign workers enrol</code>.
        </p>
      ) : (
        <ul class="cards">
          {active.map((worker) => (
            <Card worker={worker} />
          ))}
        </ul>
      )}
    </ConsolePage>
  )
}

function Card({ worker }: { worker: ProvenWorker }) {
  const { id, name, pool, tiers, advertised, means, seen_at_ms, doubled_at_ms, proof } = worker
  const look =
    proof === null || tiers.length === 0 || doubled_at_ms !== null
      ? 'high'
      : proof.tiers.C.ok && tiers.includes('C')
        ? 'low'
        : 'medium'
  return (
    <li class={`card ${look}`} id={id}>
      <h2>{name}</h2>
      <p class="tags">
        <span class={`tag ${look}`}>
          {tiers.length === 0
            ? 'gets no calls'
            : `tier${advertised.length === 1 ? '' : 's'} ${advertised.join(' and ')}`}
        </span>
        <span>pool {pool}</span>
        <span>{seen_at_ms === null ? 'not seen since the edge started' : <LastSeen at={seen_at_ms} />}</span>
      </p>
      {doubled_at_ms === null ? (
        ''
      ) : (
        <p class="alert">
          Two processes used this worker’s key at the same time, last <Time ms={doubled_at_ms} />: one of them
          is a copy and gets no calls. If you don’t know of a second host, revoke this worker and enrol its
          host again.
        </p>
      )}
      {proof === null ? (
        <p>It has not proven anything yet: it has not been started since it was enrolled.</p>
      ) : (
        <Proof proof={proof} means={means} />
      )}
      <p class="quiet">
        <code>{id}</code>
      </p>
    </li>
  )
}

function LastSeen({ at }: { at: number }) {
  return (
    <>
      last seen <Time ms={at} />
    </>
  )
}

function Proof({
  proof,
  means: { tiers, egress, cgroups, profiles },
}: {
  proof: WorkerProof
  means: WorkerResources
}) {
  const { at_ms, took_ms } = proof
  const { kernel, bubblewrap, util_linux, node } = proof.versions
  const on = `Linux ${kernel}, bubblewrap ${bubblewrap || '(none)'}, util-linux ${util_linux}, Node ${node}`
  return (
    <>
      <ProofSection name="Tier B" part={proof.tiers.B} counts={tiers.includes('B')} />
      <ProofSection name="Tier C" part={proof.tiers.C} counts={tiers.includes('C')} />
      <ProofSection name="Egress of tier C" part={proof.egress} counts={egress && tiers.includes('C')} />
      <ProofSection name="Cgroups" part={proof.cgroups} counts={cgroups} />
      {proof.cgroups.ok ? (
        ''
      ) : (
        <p class="quiet">Tier C is C-nocgroup here: limits apply to each process separately.</p>
      )}
      {proof.prepared === undefined ? (
        ''
      ) : (
        <ProofSection name="Sandboxes set up in advance" part={proof.prepared} counts={tiers.includes('C')} />
      )}
      {proof.profiles?.map(({ name, proof: part }) => (
        <ProofSection
          name={`Profile ${escapeConfusables(name)}`}
          part={part}
          counts={profiles.some((own) => own.name === name)}
        />
      ))}
      <p class="quiet">
        Tested <Time ms={at_ms} />, in {took_ms} ms, on {escapeConfusables(on)}.
      </p>
    </>
  )
}

function ProofSection({ name, part, counts }: { name: string; part: ProofPart; counts: boolean }) {
  const failed = part.checks.filter(({ ok }) => !ok)
  return (
    <details class="fold" open={!part.ok && part.lack !== 'disabled'}>
      <summary>
        {name}: {verdictOf(part, counts)}
      </summary>
      <ul>
        {(failed.length > 0 ? failed : part.checks).map((check) => (
          <li>
            {escapeConfusables(check.name)}
            {check.seen === '' ? '' : ': '}
            <code>{escapeConfusables(check.seen)}</code>
          </li>
        ))}
      </ul>
    </details>
  )
}

const LACKS = {
  disabled: 'switched off',
  unsupported_platform: 'not possible on this host',
  sandbox_unavailable: 'not proven: something is missing on the host',
}

function verdictOf({ ok, lack, checks }: ProofPart, counts: boolean): string {
  if (lack !== null) return LACKS[lack]
  const failed = checks.filter((check) => !check.ok).length
  if (!ok) return `not proven, ${failed} of ${checks.length} checks failed`
  return counts
    ? `proven, ${checks.length} ${checks.length === 1 ? 'check' : 'checks'}`
    : 'proven earlier, but the worker has not confirmed it recently'
}
