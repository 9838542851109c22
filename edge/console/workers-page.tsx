// The workers of a tenant: what each has proven of its sandboxes, when it said so, and why a tier gets no calls. It only shows.

import type { Means, Part, WorkerProof } from '../../shared/evidence/worker-proof.ts'
import type { ProvenWorker } from '../../shared/wire/workers.ts'
import { Time } from '../pages/approval-page.tsx'
import { written } from '../platform/visible-text.ts'
import { ConsolePage } from './frame.tsx'
import type { Session } from './session.ts'

export function workersPage(session: Session, workers: readonly ProvenWorker[]) {
  const active = workers.filter(({ status }) => status === 'active')
  const gone = workers.length - active.length
  return (
    <ConsolePage title="Workers" session={session} place="/console/workers">
      <h1>Workers</h1>
      <p class="quiet">
        Each worker attacks its own sandboxes when it starts and every ten minutes, and signs what it saw. A
        tier that it has not proven gets no calls.
        {gone === 0 ? '' : ` ${gone} ${gone === 1 ? 'was' : 'were'} revoked.`}
      </p>
      {active.length === 0 ? (
        <p class="empty">
          No worker is enrolled, so nothing runs. <code>countersign workers enrol</code> makes a token for
          one.
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
          {tiers.length === 0 ? 'gets no calls' : `tier ${advertised.join(' and ')}`}
        </span>
        <span>pool {pool}</span>
        <span>{seen_at_ms === null ? 'not heard of since the edge started' : <Heard at={seen_at_ms} />}</span>
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
        <p>It has not said what it can prove: it has not been started since it was enrolled.</p>
      ) : (
        <Proven proof={proof} means={means} />
      )}
      <p class="quiet">
        <code>{id}</code>
      </p>
    </li>
  )
}

function Heard({ at }: { at: number }) {
  return (
    <>
      heard of <Time ms={at} />
    </>
  )
}

function Proven({
  proof,
  means: { tiers, egress, cgroups, profiles },
}: {
  proof: WorkerProof
  means: Means
}) {
  const { at_ms, took_ms } = proof
  const { kernel, bubblewrap, util_linux, node } = proof.versions
  const on = `Linux ${kernel}, bubblewrap ${bubblewrap || '(none)'}, util-linux ${util_linux}, Node ${node}`
  return (
    <>
      <Told name="Tier B" part={proof.tiers.B} counts={tiers.includes('B')} />
      <Told name="Tier C" part={proof.tiers.C} counts={tiers.includes('C')} />
      <Told name="Egress of tier C" part={proof.egress} counts={egress && tiers.includes('C')} />
      <Told name="Cgroups" part={proof.cgroups} counts={cgroups} />
      {proof.cgroups.ok ? (
        ''
      ) : (
        <p class="quiet">Tier C is C-nocgroup here: limits hold for each process alone.</p>
      )}
      {proof.prepared === undefined ? (
        ''
      ) : (
        <Told name="Sandboxes set up in advance" part={proof.prepared} counts={tiers.includes('C')} />
      )}
      {proof.profiles?.map(({ name, proof: part }) => (
        <Told
          name={`Profile ${written(name)}`}
          part={part}
          counts={profiles.some((own) => own.name === name)}
        />
      ))}
      <p class="quiet">
        Tried <Time ms={at_ms} />, in {took_ms} ms, on {written(on)}.
      </p>
    </>
  )
}

function Told({ name, part, counts }: { name: string; part: Part; counts: boolean }) {
  const failed = part.checks.filter(({ ok }) => !ok)
  return (
    <details class="fold" open={!part.ok && part.lack !== 'disabled'}>
      <summary>
        {name}: {verdictOf(part, counts)}
      </summary>
      <ul>
        {(failed.length > 0 ? failed : part.checks).map((check) => (
          <li>
            {written(check.name)}
            {check.seen === '' ? '' : ': '}
            <code>{written(check.seen)}</code>
          </li>
        ))}
      </ul>
    </details>
  )
}

const LACKS = {
  disabled: 'switched off',
  unsupported_platform: 'not possible on this host',
  sandbox_unavailable: 'not proven, something is missing',
}

function verdictOf({ ok, lack, checks }: Part, counts: boolean): string {
  if (lack !== null) return LACKS[lack]
  const failed = checks.filter((check) => !check.ok).length
  if (!ok) return `not proven, ${failed} of ${checks.length} checks failed`
  return counts
    ? `proven, ${checks.length} ${checks.length === 1 ? 'check' : 'checks'}`
    : 'proven once; the worker has not said so of late'
}
