// Owns how workerd serves the built edge: its Cap'n Proto configuration and its process. Secrets
// are in the environment, never in the file or on the command line.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { extname, join } from 'node:path'
import { keyHash } from '../shared/ids.ts'
import { RESTORE_FILE, Restore } from '../shared/wire/restore.ts'
import { type ChildSpec, pdeathsig } from './child-process.ts'
import type { EdgeBuild } from './edge-build.ts'
import { publicNetwork } from './public-network.ts'
import { redisUrl } from './redis.ts'
import {
  ROOT,
  readSecrets,
  type Secrets,
  type State,
  sealAfter,
  wantedWitnesses,
  writePrivate,
} from './state.ts'

export const COMPATIBILITY_DATE = '2026-11-01'

/**
 * Class, binding and storage key of each object. Never change a `uniqueKey`: workerd would no
 * longer find the data.
 */
const OBJECTS = [
  { className: 'TenantObject', binding: 'TENANT', uniqueKey: 'countersign-tenant' },
  { className: 'RunObject', binding: 'RUN', uniqueKey: 'countersign-run' },
  { className: 'SessionObject', binding: 'SESSION', uniqueKey: 'countersign-session' },
  { className: 'PoolObject', binding: 'POOL', uniqueKey: 'countersign-pool' },
  { className: 'LogObject', binding: 'LOG', uniqueKey: 'countersign-log' },
  { className: 'ChannelObject', binding: 'CHANNEL', uniqueKey: 'countersign-channel' },
  { className: 'SkillObject', binding: 'SKILL', uniqueKey: 'countersign-skill' },
  { className: 'InstallationObject', binding: 'INSTALLATION', uniqueKey: 'countersign-installation' },
  { className: 'ArchiveObject', binding: 'ARCHIVE', uniqueKey: 'countersign-archive' },
] as const

const FROM_ENVIRONMENT = [
  'EDGE_SIGNING_KEY',
  'ROOT_OPERATOR_HASH',
  'INSTALLATION_KEY_HASH',
  'REDIS_URL',
  'PUBLIC_URL',
] as const

/**
 * The edge's environment: used by workerd here, by `wrangler dev`, and as secrets on Cloudflare.
 */
export const edgeEnv = (
  secrets: Secrets,
  redisPort: number,
  url: string,
): Record<(typeof FROM_ENVIRONMENT)[number], string> => ({
  EDGE_SIGNING_KEY: JSON.stringify(secrets.edge),
  ROOT_OPERATOR_HASH: keyHash(secrets.operator),
  INSTALLATION_KEY_HASH: keyHash(secrets.installation),
  REDIS_URL: redisUrl('edge', secrets, redisPort),
  PUBLIC_URL: url,
})

/** The transpiler's folder within the edge's bundle. */
const TRANSPILER = 'transpiler'

/** The kind of each module, by its file extension. */
const MODULE_KINDS: Readonly<Record<string, string>> = {
  '.js': 'esModule',
  '.mjs': 'esModule',
  '.wasm': 'wasm',
  '.sql': 'text',
  '.cedar': 'text',
  '.cedarschema': 'text',
  '.md': 'text',
  '.txt': 'text',
  '.bin': 'data',
}

const list = (items: readonly string[]): string =>
  `[\n${items.map((item) => `      ${item},\n`).join('')}    ]`

/** The entry comes first, because workerd takes the first module as the worker's main module. */
export function modules(bundle: string, at = 'bundle'): string[] {
  const names = readdirSync(bundle).filter((name) => extname(name) in MODULE_KINDS)
  const ordered = ['main.js', ...names.filter((name) => name !== 'main.js').sort()]
  return ordered.map(
    (name) =>
      `(name = ${JSON.stringify(name)}, ${MODULE_KINDS[extname(name)]} = embed ${JSON.stringify(`${at}/${name}`)})`,
  )
}

const edgeConfig = (
  bundle: string,
  objects: string,
  address: string,
  standIns: EdgeEndpoints['loopbackChannels'],
  restored: string | undefined,
  sealAfterS: string | undefined,
  witnesses: string | undefined,
): string => `# Written at every start; changes here are lost.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "edge", worker = .edge),
    (name = "transpiler", worker = .transpiler),
    (name = "nowhere", network = (allow = [])),
    (name = "objects", disk = (path = ${JSON.stringify(objects)}, writable = true)),
    # Redis is on loopback, everything else is public: no request of the edge reaches a private network (SSRF, N14).
    (name = "internet", network = (allow = ["public", "127.0.0.1/32"], tlsOptions = (trustBrowserCas = true))),
    # Operators choose where channels and upstreams are, so this network also excludes this host (except in tests and the demo).
    (name = "outside", network = ${publicNetwork(standIns !== undefined)}),
  ],
  sockets = [(name = "http", address = ${JSON.stringify(address)}, http = (), service = "edge")],
  # --expose-gc: isolates of skills free the memory of ended calls; nothing else calls gc. Without
  # --no-flush-liftoff-code, each new isolate would drop the compiled code of the whole process, and
  # the next decision would wait 9 ms for the policy engine. The last flag, thirty times the default,
  # keeps V8 from optimising the engine on all cores when the first requests come
  # (docs/decisions/0135).
  v8Flags = ["--expose-gc", "--no-flush-liftoff-code", "--wasm-tiering-budget=400000000"],
);

const edge :Workerd.Worker = (
    compatibilityDate = "${COMPATIBILITY_DATE}",
    modules = ${list(modules(bundle))},
    bindings = ${list([
      ...OBJECTS.map(
        ({ binding, className }) => `(name = "${binding}", durableObjectNamespace = "${className}")`,
      ),
      ...FROM_ENVIRONMENT.map((name) => `(name = "${name}", fromEnvironment = "${name}")`),
      '(name = "ONE_PROCESS", text = "yes")',
      ...(restored === undefined ? [] : [`(name = "RESTORED", text = ${JSON.stringify(restored)})`]),
      ...(sealAfterS === undefined ? [] : [`(name = "SEAL_AFTER_S", text = ${JSON.stringify(sealAfterS)})`]),
      ...(witnesses === undefined ? [] : [`(name = "WITNESSES", text = ${JSON.stringify(witnesses)})`]),
      '(name = "OUTSIDE", service = "outside")',
      '(name = "TRANSPILER", service = "transpiler")',
      '(name = "LOADER", workerLoader = ())',
      ...(standIns === undefined
        ? []
        : [`(name = "LOOPBACK_CHANNELS", json = ${JSON.stringify(JSON.stringify(standIns))})`]),
    ])},
    durableObjectNamespaces = ${list(
      OBJECTS.map(
        ({ className, uniqueKey }) =>
          `(className = "${className}", uniqueKey = "${uniqueKey}", enableSql = true)`,
      ),
    )},
    durableObjectStorage = (localDisk = "objects"),
    globalOutbound = "internet",
);

# The transpiler reads untrusted components, so it has no network.
const transpiler :Workerd.Worker = (
    compatibilityDate = "${COMPATIBILITY_DATE}",
    modules = ${list(modules(join(bundle, TRANSPILER), `bundle/${TRANSPILER}`))},
    globalOutbound = "nowhere",
);
`

/** A witness as the setting names it. */
export type WitnessAt = { readonly url: string; readonly key: string }

export type EdgeEndpoints = {
  readonly host: string
  readonly port: number
  readonly redisPort: number
  /** The address that browsers use, if it differs. */
  readonly publicUrl?: string | undefined
  /** Instead of the setting of the environment. */
  readonly sealAfterS?: number | undefined
  readonly witnesses?: readonly WitnessAt[] | undefined
  /**
   * For tests and the demo: channels and upstreams may be on this host, and requests to one of
   * these origins go to the server given for it.
   */
  readonly loopbackChannels?: Readonly<Record<string, string>> | undefined
}

/**
 * The variable `RESTORED`, if `countersign restore` made these objects. The file lies among them, so
 * that no restored object can be served without it.
 */
function restoreOf(objects: string): string | undefined {
  const file = join(objects, RESTORE_FILE)
  return existsSync(file) ? JSON.stringify(Restore.parse(JSON.parse(readFileSync(file, 'utf8')))) : undefined
}

export function edgeSpec(state: State, build: EdgeBuild, at: EdgeEndpoints): ChildSpec {
  const bundle = join(state.edge, 'bundle')
  const objects = join(state.edge, 'objects')
  const config = join(state.edge, 'config.capnp')
  mkdirSync(objects, { recursive: true, mode: 0o700 })
  rmSync(bundle, { recursive: true, force: true })
  cpSync(build.edge, bundle, { recursive: true })
  cpSync(build.transpiler, join(bundle, TRANSPILER), { recursive: true })
  writePrivate(
    config,
    edgeConfig(
      bundle,
      objects,
      `${at.host}:${at.port}`,
      at.loopbackChannels,
      restoreOf(objects),
      at.sealAfterS?.toString() ?? sealAfter(),
      at.witnesses === undefined ? wantedWitnesses() : JSON.stringify(at.witnesses),
    ),
  )
  const url = `http://127.0.0.1:${at.port}`
  return {
    name: 'edge',
    argv: pdeathsig([join(ROOT, 'node_modules/workerd/bin/workerd'), 'serve', '--experimental', config]),
    /** Read at each start, because `countersign keys rotate` changes the edge's key. */
    get env() {
      const own = edgeEnv(readSecrets(state), at.redisPort, at.publicUrl ?? url)
      return { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8', ...own }
    },
    cwd: state.edge,
    log: join(state.log, 'edge.log'),
    ready: () => answersReady(url),
    readyWithin_ms: 120_000,
    // Nothing is lost by a quick stop: every fact is on disk before it is answered. Only waiting
    // callers are cut off.
    stopWithin_ms: 1_000,
  }
}

/**
 * wrangler reads the secrets from a file with mode 0600. It ends its own workerd only on SIGTERM,
 * so it gets that signal.
 */
export function wranglerSpec(state: State, at: EdgeEndpoints, secrets: Secrets): ChildSpec {
  const url = `http://127.0.0.1:${at.port}`
  const env = join(state.edge, 'dev.env')
  const quoted = Object.entries(edgeEnv(secrets, at.redisPort, url)).map(
    ([name, value]) => `${name}='${value}'\n`,
  )
  writePrivate(env, quoted.join(''))
  const bin = join(ROOT, 'node_modules/.bin')
  const where = [
    '--ip',
    at.host,
    '--port',
    String(at.port),
    '--persist-to',
    join(state.edge, 'wrangler'),
    '--env-file',
    env,
  ]
  return {
    name: 'edge',
    argv: pdeathsig(
      [
        join(bin, 'wrangler'),
        'dev',
        '-c',
        'wrangler.toml',
        '-c',
        'wrangler.transpiler.toml',
        ...where,
        '--show-interactive-dev-session=false',
      ],
      'TERM',
    ),
    env: {
      PATH: `${bin}:/usr/bin:/bin`,
      LANG: 'C.UTF-8',
      HOME: state.edge,
      WRANGLER_SEND_METRICS: 'false',
      NO_COLOR: '1',
      CI: '1',
    },
    cwd: ROOT,
    log: join(state.log, 'edge.log'),
    ready: () => answersReady(url),
    readyWithin_ms: 60_000,
    stopWithin_ms: 5_000,
  }
}

async function answersReady(url: string): Promise<boolean> {
  try {
    const answer = await fetch(new URL('/readyz', url), { signal: AbortSignal.timeout(2_000) })
    await answer.arrayBuffer()
    return answer.ok
  } catch {
    return false
  }
}
