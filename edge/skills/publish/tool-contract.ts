// Derives the contract of a skill's tool from the skill's manifest. Pure; registration, trials and
// the console's preview of permissions all use it.

import { declaredCapabilities, type UnboundManifest } from '../../../shared/wire/skills.ts'
import type { ToolSpec } from '../../../shared/wire/tools.ts'

/** Drops members that are undefined. */
const some = <T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }

/** The tool's egress, secrets and limits are those of the whole manifest. */
export function toolContract(
  manifest: UnboundManifest,
  digest: string,
  tool: UnboundManifest['tools'][number],
): ToolSpec {
  const { id, version, limits } = manifest
  const { http, secrets, credentials, kv, channels } = manifest.capabilities
  const { name, ...declared } = tool
  const { table_elements: _, ...bounds } = limits
  const granted = {
    capabilities: declaredCapabilities(manifest),
    ...some({ methods: http?.methods, kv, channels }),
  }
  return {
    ...declared,
    capabilities: channels === undefined ? [] : ['network'], // posts leave the installation
    executor: { kind: 'skill', skill: id, version, digest, tool: name, ...granted },
    egress: { mode: 'strict', hosts: http?.hosts ?? [] },
    ...some({ secrets, credentials }),
    workspace: 'call',
    limits: bounds,
  }
}
