// The messages between arena.ts (in the test) and driver.ts (the unprivileged process), as lines of
// JSON.

import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import type { SandboxExecution } from '../../../worker/sandbox/launch.ts'
import type { Host, Programs } from '../../../worker/sandbox/plan/host-programs.ts'
import type { OperatorProfiles } from '../../../worker/sandbox/plan/operator-profiles.ts'
import type { Facts } from '../../../worker/sandbox/plan/proven.ts'

export type Setup = {
  readonly folder: string
  readonly privateHosts?: readonly string[]
  /** PEM, as SandboxOptions has it. */
  readonly authorities?: string
  readonly profiles?: OperatorProfiles
  /** As if `closeInheritedDescriptors` had been forgotten. */
  readonly keepDescriptors?: boolean
  /** Overrides for the facts that were found on the host. */
  readonly host?: Partial<Host>
  readonly programs?: Partial<Programs>
  /** The proof of an arena with the same set-up; without it the driver runs the probe. */
  readonly facts?: Facts | undefined
  /** Warm sandboxes are started. A call that may use one waits for it, unless `hasten` is set. */
  readonly prepared?: { readonly stale_ms?: number; readonly hasten?: boolean }
}

export type LaunchOrder = {
  readonly plan: Plan
  readonly stdin?: string
  readonly secrets?: Readonly<Record<string, string>>
  readonly runFolder?: string
  /** Cancel as soon as a stream holds this. */
  readonly cancelOn?: string
}
/** Output as latin1: bytes stay bytes. */
export type LaunchSeen = SandboxExecution & {
  readonly out: string
  readonly err: string
  readonly fromStock: boolean
}

/** Elements of the command to replace by others, or by none. */
export type Swap = readonly [from: readonly string[], to: readonly string[]]

export type BareOrder = {
  readonly plan: Plan
  readonly runFolder?: string
  readonly swaps?: readonly Swap[]
  /** Of bubblewrap itself. */
  readonly env?: Readonly<Record<string, string>>
  /** A program that starts it. */
  readonly under?: readonly string[]
  /** Options on the command line instead of a descriptor. */
  readonly inline?: boolean
  /** Sends SIGKILL to the started process alone, once it has printed this. */
  readonly killOn?: string
}
export type BareSeen = {
  readonly code: number | null
  readonly signal: string | null
  readonly out: string
  readonly err: string
  readonly status: string
}

/** As Orphans has it. */
export type OrphansSeen = {
  readonly found: number
  readonly alive: readonly number[]
  readonly folders: readonly string[]
}

export type Order =
  | { readonly id: number; readonly do: 'facts' }
  | { readonly id: number; readonly do: 'orphans' }
  | ({ readonly id: number; readonly do: 'launch' } & LaunchOrder)
  | ({ readonly id: number; readonly do: 'bare' } & BareOrder)
export type FactsSeen = Facts & { readonly pid: number }
export type Answer = {
  readonly id: number
  readonly value?: unknown
  readonly said?: string
  readonly error?: string
}
