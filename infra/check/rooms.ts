// The rooms of each side, and which rooms each may import. A room may import only rooms that stand
// above it, so no cycle can form. The import rules, the drawing in docs/rooms.svg and the check for
// misplaced files all read this table.

export const SIDES = ['edge', 'worker', 'cli', 'shared'] as const
export type Side = (typeof SIDES)[number]
type Rooms = Readonly<Record<string, readonly string[]>>

/**
 * A room is a folder with its subfolders, or one file. `main` is every other file directly in the
 * side's folder.
 */
export const ROOMS: Readonly<Record<Side, Rooms>> = {
  edge: {
    platform: [],
    call: [],
    tools: ['call'],
    policy: ['tools'],
    secrets: ['platform'],
    workers: [],
    'bindings.ts': [],
    directory: ['platform', 'tools', 'policy', 'secrets', 'workers', 'bindings.ts'],
    tokens: ['platform', 'bindings.ts', 'directory'],
    http: ['workers', 'bindings.ts', 'directory', 'tokens'],
    installation: ['platform', 'policy', 'bindings.ts', 'http'],
    approvals: ['platform', 'call', 'tools', 'secrets', 'bindings.ts', 'directory'],
    decision: ['call', 'tools', 'policy', 'secrets', 'directory', 'approvals'],
    log: ['platform', 'bindings.ts'],
    export: ['platform', 'secrets', 'bindings.ts'],
    archive: ['platform', 'bindings.ts'],
    rehearsal: ['platform', 'call', 'tools', 'policy', 'bindings.ts', 'directory', 'decision', 'log'],
    pool: ['bindings.ts'],
    session: ['platform', 'call', 'bindings.ts', 'directory', 'approvals'],
    skills: ['platform', 'tools', 'bindings.ts', 'directory'],
    upstreams: ['platform', 'tools', 'secrets', 'bindings.ts', 'directory'],
    channels: ['platform', 'bindings.ts', 'directory', 'http', 'approvals', 'decision'],
    run: [
      'platform',
      'call',
      'policy',
      'secrets',
      'workers',
      'bindings.ts',
      'directory',
      'approvals',
      'decision',
      'log',
      'export',
      'archive',
      'rehearsal',
      'pool',
      'skills',
      'upstreams',
    ],
    tenant: [
      'platform',
      'policy',
      'secrets',
      'workers',
      'bindings.ts',
      'directory',
      'tokens',
      'log',
      'export',
      'skills',
      'upstreams',
    ],
    pages: ['platform', 'bindings.ts', 'http', 'approvals'],
    console: [
      'platform',
      'tools',
      'bindings.ts',
      'directory',
      'http',
      'approvals',
      'skills',
      'run',
      'tenant',
      'pages',
    ],
    mcp: ['platform', 'call', 'tools', 'policy', 'bindings.ts', 'directory', 'http', 'decision', 'run'],
    api: [
      'call',
      'tools',
      'policy',
      'workers',
      'bindings.ts',
      'directory',
      'tokens',
      'http',
      'approvals',
      'decision',
      'log',
      'export',
      'rehearsal',
      'skills',
      'upstreams',
      'channels',
      'run',
      'tenant',
      'pages',
      'console',
      'mcp',
    ],
    'router.ts': [
      'platform',
      'archive',
      'bindings.ts',
      'directory',
      'http',
      'installation',
      'decision',
      'pages',
      'mcp',
      'api',
    ],
    'main.ts': [
      'installation',
      'log',
      'archive',
      'pool',
      'session',
      'skills',
      'channels',
      'run',
      'tenant',
      'router.ts',
    ],
  },
  worker: {
    host: [],
    'sandbox/kernel': [],
    'sandbox/streams': [],
    queue: ['host'],
    'sandbox/limits': ['host', 'sandbox/kernel'],
    'sandbox/plan': ['sandbox/kernel', 'sandbox/limits'],
    'sandbox/process': ['host', 'sandbox/kernel', 'sandbox/streams', 'sandbox/limits', 'sandbox/plan'],
    'sandbox/network': ['host', 'sandbox/streams', 'sandbox/limits', 'sandbox/plan', 'sandbox/process'],
    'config.ts': ['sandbox/plan', 'sandbox/network'],
    sandbox: [
      'host',
      'sandbox/kernel',
      'sandbox/streams',
      'sandbox/limits',
      'sandbox/plan',
      'sandbox/process',
      'sandbox/network',
    ],
    link: ['host', 'config.ts'],
    'sandbox/probe': ['host', 'sandbox/kernel', 'sandbox/plan', 'sandbox/process', 'sandbox'],
    proof: ['host', 'sandbox/plan', 'sandbox/network', 'config.ts', 'sandbox', 'link', 'sandbox/probe'],
    upstreams: ['sandbox/streams'],
    calls: [
      'host',
      'sandbox/streams',
      'queue',
      'sandbox/limits',
      'config.ts',
      'sandbox',
      'link',
      'proof',
      'upstreams',
    ],
    main: [
      'host',
      'sandbox/kernel',
      'queue',
      'sandbox/limits',
      'sandbox/plan',
      'config.ts',
      'sandbox',
      'link',
      'proof',
      'calls',
    ],
  },
  cli: {
    shell: [],
    admin: ['shell'],
    approvals: ['shell'],
    calls: ['shell'],
    channels: ['shell'],
    host: ['shell'],
    log: ['shell', 'calls'],
    'skills/javascript': ['shell'],
    policy: ['shell', 'calls'],
    skills: ['shell', 'skills/javascript'],
    upstreams: ['shell'],
    witness: ['shell'],
    main: [
      'shell',
      'admin',
      'approvals',
      'calls',
      'channels',
      'host',
      'log',
      'policy',
      'skills',
      'upstreams',
      'witness',
    ],
  },
  shared: {
    'failures.ts': [],
    'ids.ts': [],
    'key-limits.ts': [],
    'mcp-limits.ts': [],
    'token-limits.ts': [],
    'policy-limits.ts': [],
    'upstream-limits.ts': [],
    'witness-limits.ts': [],
    'limits.ts': [
      'key-limits.ts',
      'mcp-limits.ts',
      'policy-limits.ts',
      'token-limits.ts',
      'upstream-limits.ts',
      'witness-limits.ts',
    ],
    'fields.ts': ['ids.ts'],
    'result.ts': ['failures.ts'],
    schema: ['failures.ts', 'ids.ts', 'limits.ts', 'result.ts'],
    secrets: ['limits.ts'],
    bytes: ['failures.ts', 'limits.ts', 'result.ts'],
    plan: ['failures.ts', 'ids.ts', 'upstream-limits.ts', 'limits.ts', 'bytes'],
    mcp: ['upstream-limits.ts', 'limits.ts', 'result.ts', 'schema', 'bytes', 'plan'],
    evidence: ['failures.ts', 'ids.ts', 'limits.ts', 'fields.ts', 'result.ts', 'bytes', 'plan'],
    wire: ['ids.ts', 'limits.ts', 'fields.ts', 'secrets', 'bytes', 'plan', 'evidence'],
    routes: ['failures.ts', 'limits.ts', 'fields.ts', 'result.ts', 'plan', 'evidence', 'wire'],
  },
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** A regular expression for the files of one room, without those of the rooms inside it. */
export function patternOf(side: Side, room: string, rooms: Rooms = ROOMS[side]): string {
  if (room.endsWith('.ts')) return `^${side}/${escaped(room)}$`
  const [prefix, inside] =
    room === 'main'
      ? ['', Object.keys(rooms)]
      : [`${room}/`, Object.keys(rooms).filter((name) => name.startsWith(`${room}/`))]
  const except = inside
    .filter((name) => name !== 'main')
    .map((name) => `${escaped(name.slice(prefix.length))}${name.endsWith('.ts') ? '$' : '/'}`)
  const rest = room === 'main' ? '[^/]+$' : ''
  return `^${side}/${escaped(prefix)}${except.length === 0 ? '' : `(?!${except.join('|')})`}${rest}`
}

/** The room that a file lies in; undefined for a file in a folder that is not a room. */
export const roomOf = (side: Side, file: string): string | undefined =>
  Object.keys(ROOMS[side]).find((room) => new RegExp(patternOf(side, room)).test(file))

/**
 * Names in a table that break its order: a room that imports itself, one below it, or one that does
 * not exist.
 */
export function misordered(rooms: Rooms): string[] {
  const above = new Set<string>()
  return Object.entries(rooms).flatMap(([room, reach]) => {
    const wrong = reach.filter((name) => !above.has(name))
    above.add(room)
    return wrong.map((name) => `${room} may import ${name}, which does not stand above it`)
  })
}
