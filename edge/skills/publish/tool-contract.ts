// The contract that a skill's tool is registered with, made of its manifest. Pure: whoever tells what will be decided of it reads the same one.

import { capabilitiesIn, type UnboundManifest } from '../../../shared/wire/skills.ts'
import type { ToolSpec } from '../../../shared/wire/tools.ts'

/** Members that there are. */
const some = <T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  } // only undefined ones are gone

/** A skill's tool as a contract: what it reaches and may take is the manifest's. */
export function specOf(
  manifest: UnboundManifest,
  digest: string,
  tool: UnboundManifest['tools'][number],
): ToolSpec {
  const { id, version, limits } = manifest
  const { http, secrets, credentials, kv, channels } = manifest.capabilities
  const { name, ...said } = tool
  const { table_elements: _, ...bounds } = limits
  const granted = {
    capabilities: capabilitiesIn(manifest),
    ...some({ methods: http?.methods, kv, channels }),
  }
  return {
    ...said,
    capabilities: channels === undefined ? [] : ['network'], // what it posts leaves the house
    executor: { kind: 'skill', skill: id, version, digest, tool: name, ...granted },
    egress: { mode: 'strict', hosts: http?.hosts ?? [] },
    ...some({ secrets, credentials }),
    workspace: 'call',
    limits: bounds,
  }
}
