// Runs the probe of this host's sandboxes and signs its result. A tier counts only while its latest
// probe succeeded (L8).

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import {
  OBSERVATION_CHARS,
  type ProofPart,
  provenResources,
  sealProof,
  type WorkerProof,
  type WorkerResources,
} from '../../shared/evidence/worker-proof.ts'
import { Tier } from '../../shared/plan/plan.ts'
import { err } from '../../shared/result.ts'
import type { Config } from '../config.ts'
import type { Identity } from '../link/identity.ts'
import { type Equipment, equip, unequip } from '../sandbox/equipment.ts'
import type { Sandbox } from '../sandbox/launch.ts'
import { readAuthorities } from '../sandbox/network/trusted-cas.ts'
import { findHost } from '../sandbox/plan/host-programs.ts'
import { profileDigest } from '../sandbox/plan/operator-profiles.ts'
import { type Facts, type Proof, proofOf, unprovenBecause } from '../sandbox/plan/proven.ts'
import { probe } from '../sandbox/probe/probe.ts'
import type { WarmStock } from '../sandbox/warm-stock.ts'

export type Finding = { readonly check: string; readonly ok: boolean; readonly found: string }
export type ProvenSandbox = {
  readonly sandbox: Sandbox
  readonly tiers: readonly Tier[]
  readonly findings: readonly Finding[]
  /** Sentences about things that this host lacks for a configured tier. */
  readonly lacking: readonly string[]
}

/** The proof for the edge, signed with the worker's key. */
export const signedProof = (
  proven: ProvenSandbox,
  { tenant, worker, signer }: Identity,
  at_ms: number,
): Envelope =>
  sealProof({ format: 'countersign-worker-proof/v1', tenant, worker, at_ms, ...contentOf(proven) }, signer)

/** The abilities that the edge will derive from the proof. */
export const meansOf = (proven: ProvenSandbox): WorkerResources => provenResources(contentOf(proven))

function contentOf({
  sandbox: { facts, equipment },
}: ProvenSandbox): Omit<WorkerProof, 'format' | 'tenant' | 'worker' | 'at_ms'> {
  const { tiers, egress, cgroups, prepared, versions, took_ms } = facts
  const profiles = Object.entries(equipment.profiles).map(([name, profile]) => ({
    name,
    from: profile.from,
    sha256: profileDigest(equipment.profileDigests[profile.from], profile),
    proof: withFirstFailures(
      part(facts.profiles[name] ?? unprovenBecause('sandbox_unavailable', ['the probe did not try it'])),
    ),
  }))
  const results = {
    tiers: { B: part(tiers.B), C: part(tiers.C) },
    egress: part(egress),
    cgroups: part(cgroups),
    prepared: part(prepared),
    profiles,
  }
  return { took_ms, versions, ...results }
}

/**
 * Only the first failed checks of a profile keep their output: many profiles must fit one request.
 */
const FAILURES_KEPT = 2
function withFirstFailures(whole: ProofPart): ProofPart {
  const first = whole.checks.filter(({ ok }) => !ok).slice(0, FAILURES_KEPT)
  return {
    ...whole,
    checks: whole.checks.map((check) => (first.includes(check) ? check : { ...check, seen: '' })),
  }
}

const part = ({ ok, checks, lack }: Proof): ProofPart => ({
  ok,
  lack: lack ?? null,
  checks: checks.map((check) => ({
    name: check.name.slice(0, 100),
    ok: check.ok,
    seen: oneLine(check.detail),
  })),
})

/** Makes one well-formed line of a canary's output, which may be any bytes. */
const oneLine = (seen: string): string =>
  seen
    .toWellFormed()
    .replace(/[\x00-\x20\x7f]+/g, ' ')
    .slice(0, OBSERVATION_CHARS)
    .toWellFormed()

async function openEquipment({ home, private_hosts, ca_file, profiles }: Config): Promise<Equipment> {
  const authorities = ca_file === undefined ? undefined : readAuthorities(ca_file)
  // It was readable when the configuration was parsed.
  if (authorities?.ok === false) throw new Error(authorities.error)
  return equip(await findHost(), {
    folder: join(home, 'sandbox'),
    privateHosts: private_hosts,
    authorities: authorities?.value,
    profiles,
  })
}

/** Runs `work`, then always ends the warm sandboxes and removes their folders (D15). */
export async function withEquipment<T>(
  config: Config,
  work: (equipment: Equipment) => Promise<T>,
): Promise<T> {
  const equipment = await openEquipment(config)
  try {
    return await work(equipment)
  } finally {
    await Promise.race([unequip(equipment), sleep(UNEQUIP_WITHIN_MS)])
  }
}
const UNEQUIP_WITHIN_MS = 1_000

/**
 * Drops the cgroups if their delegation was revoked since the start. Calls then run without, and
 * the proof says so.
 */
function withCurrentCgroups(equipment: Equipment): Equipment {
  const fault = equipment.groups.ok ? equipment.groups.value.fault() : undefined
  return fault === undefined ? equipment : { ...equipment, groups: err(fault) }
}

export async function prove(
  equipment: Equipment,
  offered: readonly Tier[],
  prepared?: WarmStock,
): Promise<ProvenSandbox> {
  const current = withCurrentCgroups(equipment)
  const facts = await probe(current, offered, prepared)
  const tiers = Tier.options.filter((tier) => facts.tiers[tier].ok)
  const lacking = offered.flatMap((tier) => {
    const { lack, checks } = facts.tiers[tier]
    return lack === undefined ? [] : checks.map(({ detail }) => `tier ${tier}: ${detail}`)
  })
  const stock = facts.prepared.ok ? prepared : undefined
  return {
    sandbox: { equipment: current, facts, prepared: stock },
    tiers,
    findings: findingsOf(facts),
    lacking,
  }
}

/** A failed proof of everything, for a probe that ended early: earlier results no longer count. */
export function nothingProven({ sandbox, lacking }: ProvenSandbox, why: string): ProvenSandbox {
  const failed = proofOf([{ name: 'the probe completes', ok: false, detail: why }])
  const { profiles } = sandbox.facts
  const facts: Facts = {
    ...sandbox.facts,
    tiers: { B: failed, C: failed },
    egress: failed,
    cgroups: failed,
    prepared: failed,
    profiles: Object.fromEntries(Object.keys(profiles).map((name) => [name, failed])),
  }
  return { sandbox: { ...sandbox, facts }, tiers: [], findings: findingsOf(facts), lacking }
}

const findingsOf = ({ tiers, egress, cgroups, prepared, profiles }: Facts): Finding[] =>
  [
    ...Object.entries({ 'tier B': tiers.B, 'tier C': tiers.C, egress, limits: cgroups, prepared }),
    ...Object.entries(profiles).map(([name, proof]) => [`profile ${name}`, proof] as const),
  ].flatMap(([part, { checks, lack }]) =>
    // A check that fails because the operator disabled the tier does not count as a failure.
    checks.map(({ name, ok, detail }) => ({
      check: `${part}: ${name}`,
      ok: ok || lack === 'disabled',
      found: detail,
    })),
  )
