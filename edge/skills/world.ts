// The world of a skill, `countersign:skill@0.1.0`: what it exports and what it may import, by name and by exact type. Whoever adds a
// capability adds it here, to the host's side of it in isolate.ts, and to the WIT that authors build against.

export const WORLD = `package countersign:skill@0.1.0;

/// Kept with the call, for whoever reads it: 64 KiB in all, the rest is dropped.
interface log {
  write: func(level: string, text: string);
}

/// Milliseconds since 1970, by the edge's clock, when the call began. It stands still while a call runs.
interface clock {
  now: func() -> u64;
}

/// 65,536 bytes at a time, at the most.
interface random {
  bytes: func(count: u32) -> list<u8>;
}

world skill {
  import log;
  import clock;
  import random;
  /// \`tool\` is one of the manifest's, \`input\` its arguments as JSON. The result is JSON; an error is a sentence for whoever called.
  export run: func(tool: string, input: string) -> result<string, string>;
}
`

export const CAPABILITIES = ['log', 'clock', 'random'] as const
export type SkillCapability = (typeof CAPABILITIES)[number]

/** As jco tells the types of an interface: what differs is another one, whatever its name. */
const TYPES: Readonly<Record<SkillCapability, string>> = {
  log: 'export function write(level: string, text: string): void;',
  clock: 'export function now(): bigint;',
  random: 'export function bytes(count: number): Uint8Array;',
}
const ROOT = 'export interface Root {\n  run(tool: string, input: string): string,\n}'

export type Told = { readonly imports: readonly string[]; readonly declarations: ReadonlyMap<string, string> }

/** What of a transpiled component is not of the world; undefined where all of it is. */
export function foreign({ imports, declarations }: Told): string | undefined {
  for (const name of imports) {
    const capability = CAPABILITIES.find((known) => name === `countersign:skill/${known}`)
    if (capability === undefined) return `it imports \`${name}\`, which no skill is given`
    const told = declarations.get(`interfaces/countersign-skill-${capability}.d.ts`)
    const interfaceTypes = `/** @module Interface countersign:skill/${capability}@0.1.0 **/\n${TYPES[capability]}\n`
    if (told !== interfaceTypes) return `its \`${name}\` is not that of \`countersign:skill@0.1.0\``
  }
  if (declarations.size !== imports.length + 1) return 'it has interfaces that are not of the world `countersign:skill@0.1.0`'
  const root = declarations.get('component.d.ts') ?? ''
  return root.includes(ROOT) && root.split('export interface Root').length === 2
    ? undefined
    : 'it does not export `run` alone, as the world `countersign:skill@0.1.0` has it'
}
