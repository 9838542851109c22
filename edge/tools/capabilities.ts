// What a tool can do, as policies see it: what its contract says, and what follows from the rest of the contract. Pure. A contract that
// says less than it gives is read by what it gives.

import type { Capability, ToolSpec } from '../../shared/wire/tools.ts'

/** Capabilities that make a call sensitive by themselves. */
const SENSITIVE: ReadonlySet<Capability> = new Set([
  'process_exec',
  'network',
  'secrets_read',
  'filesystem_write',
])

type Contract = Pick<ToolSpec, 'capabilities' | 'secrets' | 'egress' | 'sensitive'>

/** A contract with secrets reads them, and one with hosts reaches them. The open network of tier B is no capability: the floor reads it from the plan. */
export function capabilitiesOf({ capabilities, secrets = [], egress }: Contract): Capability[] {
  const implied: Capability[] = [
    ...(secrets.length > 0 ? (['secrets_read'] as const) : []),
    ...(egress.hosts.length > 0 ? (['network'] as const) : []),
  ]
  return [...new Set([...capabilities, ...implied])]
}

/** The actions that a call of the tool is, as policies know them. */
export const actionGroups = ({ executor }: Partial<Pick<ToolSpec, 'executor'>>): string[] =>
  executor?.kind === 'skill' ? ['tool.execute', 'skill.execute'] : ['tool.execute']

export const isSensitive = (contract: Contract): boolean =>
  contract.sensitive === true || capabilitiesOf(contract).some((capability) => SENSITIVE.has(capability))
