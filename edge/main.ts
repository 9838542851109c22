// Entry point of the Worker: exports the router and the classes of its Durable Objects.

import { serve } from './router.ts'

// biome-ignore-start lint/performance/noBarrelFile: the platform finds the objects' classes among the entry's exports
export { ArchiveObject } from './archive/archive-object.ts'
export { ChannelObject } from './channels/channel-object.ts'
export { InstallationObject } from './installation/installation-object.ts'
export { LogObject } from './log/log-object.ts'
export { PoolObject } from './pool/pool-object.ts'
export { RunObject } from './run/run-object.ts'
export { SessionObject } from './session/session-object.ts'
export { SkillObject } from './skills/skill-object.ts'
export { TenantObject } from './tenant/tenant-object.ts'
// biome-ignore-end lint/performance/noBarrelFile: as above

export default { fetch: serve }
