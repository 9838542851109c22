// The capabilities of a tool, as policies see them: those that its contract declares, and those
// that the rest of the contract implies, whether declared or not. Pure.

import type { Capability, ToolSpec } from '../../shared/wire/tools.ts'

/** Each of these capabilities alone makes a call sensitive. */
const SENSITIVE: ReadonlySet<Capability> = new Set([
  'process_exec',
  'network',
  'secrets_read',
  'filesystem_write',
])

type Contract = Pick<ToolSpec, 'capabilities' | 'secrets' | 'egress' | 'sensitive'> &
  Partial<Pick<ToolSpec, 'executor'>>

/**
 * Secrets imply `secrets_read`, hosts imply `network`. The open network of tier B is not a
 * capability: the floor policies read it from the plan.
 */
export function capabilitiesOf({ capabilities, secrets = [], egress }: Contract): Capability[] {
  const implied: Capability[] = [
    ...(secrets.length > 0 ? (['secrets_read'] as const) : []),
    ...(egress.hosts.length > 0 ? (['network'] as const) : []),
  ]
  return [...new Set([...capabilities, ...implied])]
}

/** The Cedar actions that a call of the tool belongs to. */
export const actionGroups = ({ executor }: Partial<Pick<ToolSpec, 'executor'>>): string[] =>
  executor?.kind === 'skill' ? ['tool.execute', 'skill.execute'] : ['tool.execute']

/**
 * For a tool of an upstream the operator who accepted it decides alone, because the reach of the
 * whole server would mark each of its tools; without their word it is sensitive.
 */
export const isSensitive = (contract: Contract): boolean =>
  contract.executor?.kind === 'upstream' || contract.executor?.kind === 'stdio'
    ? contract.sensitive !== false
    : contract.sensitive === true || capabilitiesOf(contract).some((capability) => SENSITIVE.has(capability))
