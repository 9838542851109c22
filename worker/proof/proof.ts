// Owns what this host has proven of its sandboxes, and the proving of it anew: a tier counts only while its last probe held (L8).

import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Envelope } from '../../shared/evidence/dsse.ts'
import {
  type Means,
  type Part,
  provenMeans,
  SEEN_CHARS,
  sealProof,
  type WorkerProof,
} from '../../shared/evidence/worker-proof.ts'
import { Tier } from '../../shared/plan/plan.ts'
import { err } from '../../shared/result.ts'
import type { Config } from '../config.ts'
import type { Identity } from '../link/identity.ts'
import { type Equipment, equip, unequip } from '../sandbox/equipment.ts'
import type { Sandbox } from '../sandbox/launch.ts'
import { readAuthorities } from '../sandbox/network/trusted-cas.ts'
import { findHost } from '../sandbox/plan/host-programs.ts'
import { ownDigest } from '../sandbox/plan/operator-profiles.ts'
import { type Facts, lacks, type Proof, proofOf } from '../sandbox/plan/proven.ts'
import { probe } from '../sandbox/probe/probe.ts'
import type { PreparedStock } from '../sandbox/warm-stock.ts'

export type Finding = { readonly check: string; readonly ok: boolean; readonly found: string }
export type Proven = {
  readonly sandbox: Sandbox
  readonly tiers: readonly Tier[]
  readonly findings: readonly Finding[]
  /** What this host does not have for a tier that it is to take. */
  readonly lacking: readonly string[]
}

/** What the edge is told, in the worker's words and under its key. */
export const signedProof = (proven: Proven, { tenant, worker, signer }: Identity, at_ms: number): Envelope =>
  sealProof({ format: 'countersign-worker-proof/v1', tenant, worker, at_ms, ...toldOf(proven) }, signer)

/** What the edge will make of it. */
export const meansOf = (proven: Proven): Means => provenMeans(toldOf(proven))

function toldOf({
  sandbox: { facts, equipment },
}: Proven): Omit<WorkerProof, 'format' | 'tenant' | 'worker' | 'at_ms'> {
  const { tiers, egress, cgroups, prepared, versions, took_ms } = facts
  const profiles = Object.entries(equipment.profiles).map(([name, own]) => ({
    name,
    from: own.from,
    sha256: ownDigest(equipment.profileDigests[own.from], own),
    proof: failures(part(facts.profiles[name] ?? lacks('sandbox_unavailable', ['it was not tried']))),
  }))
  const own = {
    tiers: { B: part(tiers.B), C: part(tiers.C) },
    egress: part(egress),
    cgroups: part(cgroups),
    prepared: part(prepared),
    profiles,
  }
  return { took_ms, versions, ...own }
}

/** There may be many profiles, and all of them are one request: what was seen is told of the first checks that failed. */
const FAILURES_TOLD = 2
function failures(told: Part): Part {
  const first = told.checks.filter(({ ok }) => !ok).slice(0, FAILURES_TOLD)
  return {
    ...told,
    checks: told.checks.map((check) => (first.includes(check) ? check : { ...check, seen: '' })),
  }
}

const part = ({ ok, checks, lack }: Proof): Part => ({
  ok,
  lack: lack ?? null,
  checks: checks.map((check) => ({ name: check.name.slice(0, 100), ok: check.ok, seen: told(check.detail) })),
})

/** One line of whole characters: what a canary saw may be anything. */
const told = (seen: string): string =>
  seen
    .toWellFormed()
    .replace(/[\x00-\x20\x7f]+/g, ' ')
    .slice(0, SEEN_CHARS)
    .toWellFormed()

async function openEquipment({ home, private_hosts, ca_file, profiles }: Config): Promise<Equipment> {
  const authorities = ca_file === undefined ? undefined : readAuthorities(ca_file)
  if (authorities?.ok === false) throw new Error(authorities.error) // the configuration has been read: it was there a moment ago
  return equip(await findHost(), {
    folder: join(home, 'sandbox'),
    privateHosts: private_hosts,
    authorities: authorities?.value,
    profiles,
  })
}

/** Runs `work`, then always ends the processes that wait for calls and removes their folders (D15). */
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

/** What was delegated at the start may have been taken away since: then calls go on without, and that is told. */
function withStandingGroups(equipment: Equipment): Equipment {
  const fault = equipment.groups.ok ? equipment.groups.value.fault() : undefined
  return fault === undefined ? equipment : { ...equipment, groups: err(fault) }
}

export async function prove(
  equipment: Equipment,
  offered: readonly Tier[],
  prepared?: PreparedStock,
): Promise<Proven> {
  const standing = withStandingGroups(equipment)
  const facts = await probe(standing, offered, prepared)
  const tiers = Tier.options.filter((tier) => facts.tiers[tier].ok)
  const lacking = offered.flatMap((tier) => {
    const { lack, checks } = facts.tiers[tier]
    return lack === undefined ? [] : checks.map(({ detail }) => `tier ${tier}: ${detail}`)
  })
  const stock = facts.prepared.ok ? prepared : undefined
  return {
    sandbox: { equipment: standing, facts, prepared: stock },
    tiers,
    findings: findingsOf(facts),
    lacking,
  }
}

/** Where it could not be tried, nothing of what was before counts. */
export function nothingProven({ sandbox, lacking }: Proven, why: string): Proven {
  const failed = proofOf([{ name: 'it is tried', ok: false, detail: why }])
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
    // What the operator switched off is as it should be.
    checks.map(({ name, ok, detail }) => ({
      check: `${part}: ${name}`,
      ok: ok || lack === 'disabled',
      found: detail,
    })),
  )
