// `node infra/check/imports.ts`: checks who imports what, with dependency-cruiser, type imports
// included. It prints each breach with what to do instead, and exits 1 if there is one. Loosening a
// rule is a decision that needs a record in docs/decisions. Cycles between files, and what the
// import graph can't show, are checked by biome (biome.json and the .grit files beside this one).

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { cruise, type ICruiseResult, type IForbiddenRuleType } from 'dependency-cruiser'
import { misordered, patternOf, ROOMS, SIDES } from './rooms.ts'

/**
 * The folders that each folder may import. `.` is the root, which holds the configuration files of
 * tools.
 */
const FOLDERS: Readonly<Record<string, readonly string[]>> = {
  // `docs` for docs/evidence.md, which each edge serves.
  edge: ['edge', 'shared', 'policies', 'migrations', 'docs'],
  worker: ['worker', 'shared'],
  cli: ['cli', 'shared'],
  // The client package brings shared/evidence with it; the bundler replaces what that needs of
  // Node.
  clients: ['clients', 'shared'],
  shared: ['shared'],
  policies: ['policies'],
  skills: ['skills'],
  migrations: ['migrations'],
  infra: ['infra', 'edge', 'worker', 'cli', 'shared', 'policies', 'migrations', '.'],
  test: ['test', 'infra', 'edge', 'worker', 'cli', 'clients', 'shared', 'policies', 'migrations', '.'],
  '.': ['.', 'infra', 'shared'],
}

type SoleImporter = {
  readonly packages: readonly string[]
  readonly may: readonly string[]
  readonly instead: string
}

/**
 * A heavy or dangerous package has few importers, so that its cost, its failures and its
 * replacement have one place.
 */
const SOLE_IMPORTERS: readonly SoleImporter[] = [
  {
    packages: ['@cedar-policy/cedar-wasm'],
    // A test compares our answers with those of the bare engine, and the benchmark compares the
    // times.
    may: ['^edge/policy/', '^test/edge/policy/', '^test/bench/inside-edge/'],
    instead: 'ask edge/policy for a decision',
  },
  {
    packages: ['@bytecodealliance/jco', '@bytecodealliance/jco-transpile'],
    // Authors build components on their own machine, and tests build some of theirs.
    may: [
      '^edge/skills/transpiler/',
      '^cli/skills/component\\.ts$',
      '^infra/jco-engine\\.ts$',
      '^test/support/',
    ],
    instead: 'use edge/skills, or cli/skills/component.ts to build a component',
  },
  {
    packages: ['quickjs-wasi'],
    may: ['^cli/skills/javascript/quickjs\\.ts$'],
    instead: 'build the skill with cli/skills/javascript',
  },
  {
    packages: ['bullmq', 'ioredis'],
    // Tests use the queue as an attacker with the Redis password would (Q01 to Q09).
    may: ['^edge/pool/pool-object\\.ts$', '^worker/queue/doorbells\\.ts$', '^test/'],
    instead: 'send doorbells through the PoolObject, and receive them through worker/queue',
  },
  {
    packages: ['execa'],
    may: ['^worker/sandbox/process/(start|spawner)\\.ts$'],
    instead: 'make a plan and start it with worker/sandbox/launch.ts',
  },
  {
    packages: ['drizzle-orm'],
    may: ['^edge/.+[/-](object|store|tables)\\.ts$', '^edge/platform/database\\.ts$'],
    instead: 'let the object or the store that owns the rows read and write them',
  },
  {
    packages: ['jose'],
    // Tests sign tokens with it, as an issuer would.
    may: ['^edge/tokens/signature\\.ts$', '^test/'],
    instead: 'verify a token with edge/tokens',
  },
  {
    packages: ['smol-toml'],
    may: ['^cli/skills/source-folder\\.ts$'],
    instead: 'read the skill with cli/skills/source-folder.ts',
  },
  {
    packages: ['child_process', 'cluster'],
    // A spawned process has the worker's own rights. Operators pipe mail into their own sendmail,
    // and authors run their own compilers. A backup runs `sync` and the program that resumes the edge (0130).
    may: [
      '^worker/sandbox/',
      '^cli/channels/outbox-drain\\.ts$',
      '^cli/host/(?:object-files|stopped-edge)\\.ts$',
      '^cli/skills/compilers\\.ts$',
      '^infra/',
      '^test/',
    ],
    instead: 'spawn processes in worker/sandbox only, and with an argument vector',
  },
  {
    packages: [
      'wrangler',
      'workerd',
      'miniflare',
      'drizzle-kit',
      'dependency-cruiser',
      '@hpcc-js/wasm-graphviz',
      'vitest',
    ],
    may: ['^infra/', '^test/', '^[^/]+\\.config\\.ts$'],
    instead: 'keep build tools out of the product',
  },
]

const PACKAGES = '(^|/)node_modules/'
const folder = (name: string): string => (name === '.' ? '^[^/]+$' : `^${name}/`)
const packagePaths = (names: readonly string[]): string[] => {
  const any = names.map((name) => name.replaceAll('.', '\\.')).join('|')
  return [`${PACKAGES}(${any})/`, `^(node:)?(${any})(/|$)`]
}

/**
 * Modules outside this repository: packages, Node's modules, and those of workerd and of the skill
 * world.
 */
const FOREIGN = [PACKAGES, '^@[a-z0-9-]+/', '^[a-z][a-z0-9_/-]*$', '^(node|cloudflare|countersign):']

/**
 * AssemblyScript is another language, templates become somebody else's source, and examples import
 * the built package.
 */
const NO_SOURCE = [
  '(^|/)assembly/',
  '^cli/skills/templates/',
  '^clients/typescript/(dist|examples)/',
  '^test/agents/node_modules/',
]

const folderRules = Object.entries(FOLDERS).map(
  ([name, reach]): IForbiddenRuleType => ({
    name: `${name === '.' ? 'the root' : `${name}/`} may import ${reach.map((to) => (to === '.' ? 'the root' : `${to}/`)).join(', ')}`,
    comment:
      'move what both sides must agree on to shared/, or send it over the wire; only tests import test/',
    severity: 'error',
    from: { path: folder(name) },
    to: { pathNot: [...reach.map(folder), ...FOREIGN] },
  }),
)

const roomRules = SIDES.flatMap((side) =>
  Object.entries(ROOMS[side]).map(
    ([room, reach]): IForbiddenRuleType => ({
      name: `${side}/${room} may import ${reach.length === 0 ? 'no other room' : reach.join(', ')}`,
      comment:
        'move the code to the room that owns it, or to one above both; infra/check/rooms.ts has the order',
      severity: 'error',
      from: { path: patternOf(side, room) },
      to: {
        path: `^${side}/`,
        pathNot: [room, ...reach].map((name) => patternOf(side, name)),
        // The bindings name the class of each Durable Object as a type, and import nothing else of
        // it.
        ...(`${side}/${room}` === 'edge/bindings.ts' ? { dependencyTypesNot: ['type-only'] } : {}),
      },
    }),
  ),
)

const soleImporterRules = SOLE_IMPORTERS.map(
  ({ packages, may, instead }): IForbiddenRuleType => ({
    name: `only ${may.join(', ')} may import ${packages.join(', ')}`,
    comment: instead,
    severity: 'error',
    from: { pathNot: [...may, PACKAGES] },
    to: { path: packagePaths(packages) },
  }),
)

const ROOTS = [
  ...Object.keys(FOLDERS).filter((name) => name !== '.'),
  'vitest.config.ts',
  'vitest.hosts.config.ts',
]

/** The import graph of a tree, with what breaks the rules. */
export async function importsOf(root: string): Promise<ICruiseResult> {
  const { output } = await cruise(
    ROOTS.filter((path) => existsSync(join(root, path))),
    {
      baseDir: root,
      parser: 'swc',
      tsPreCompilationDeps: true,
      validate: true,
      ruleSet: { forbidden: [...folderRules, ...roomRules, ...soleImporterRules] },
      doNotFollow: { path: 'node_modules' },
      exclude: { path: NO_SOURCE },
    },
    {
      extensions: ['.ts', '.tsx', '.js', '.mjs'],
      conditionNames: ['import', 'node', 'default'],
      exportsFields: ['exports'],
    },
  )
  if (typeof output === 'string')
    throw new Error('dependency-cruiser returned text where a graph was expected')
  return output
}

export type Breach = {
  readonly from: string
  readonly to: string
  readonly rule: string
  readonly instead: string
}

export function breachesIn({ summary }: ICruiseResult): Breach[] {
  const comments = new Map(
    [...folderRules, ...roomRules, ...soleImporterRules].map(({ name, comment }) => [name, comment ?? '']),
  )
  return summary.violations.map(({ from, to, rule }) => ({
    from,
    to,
    rule: rule.name,
    instead: comments.get(rule.name) ?? '',
  }))
}

if (import.meta.main) {
  const wrong = SIDES.flatMap((side) =>
    misordered(ROOMS[side]).map((fault) => `infra/check/rooms.ts: in ${side}, ${fault}`),
  )
  const graph = await importsOf(process.cwd())
  const breaches = breachesIn(graph)
  for (const fault of wrong) console.log(fault)
  for (const { from, to, rule, instead } of breaches)
    console.log(`${from} imports ${to}: ${rule}; ${instead}`)
  console.log(`${graph.summary.totalCruised} modules, ${breaches.length} breaches`)
  process.exitCode = breaches.length + wrong.length === 0 ? 0 : 1
}
