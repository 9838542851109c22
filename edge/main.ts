// The Worker's entry: the router, and the classes of its objects.

import { app } from './app.ts'

// biome-ignore-start lint/performance/noBarrelFile: the platform finds the objects' classes among the entry's exports
export { ChannelObject } from './channel-object.ts'
export { InstallationObject } from './installation-object.ts'
export { LogObject } from './log-object.ts'
export { PoolObject } from './pool-object.ts'
export { RunObject } from './run/run-object.ts'
export { SessionObject } from './session-object.ts'
export { SkillObject } from './skill-object.ts'
export { TenantObject } from './tenant-object.ts'
// biome-ignore-end lint/performance/noBarrelFile: as above

export default { fetch: app.fetch }
