// The Worker's entry: the router, and the classes of its objects.

import { app } from './app.ts'

export { LogObject } from './log-object.ts'
export { PoolObject } from './pool-object.ts'
export { RunObject } from './run-object.ts'
export { TenantObject } from './tenant-object.ts'

// biome-ignore lint/style/noDefaultExport: the platform calls the default export
export default { fetch: app.fetch }
