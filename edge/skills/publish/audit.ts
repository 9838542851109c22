// What a package says that it needs against what its component asks for: what does not hold is refused, what whoever enables it should know
// is a warning, kept with the version. Pure, and of what was found alone: it reads no policy and no other version.

import type { FieldError } from '../../../shared/failures.ts'
import { failure } from '../../../shared/failures.ts'
import { DEFAULT_SKILL_LIMITS, LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { SkillContents, SkillWarning, UnboundManifest } from '../../../shared/wire/skills.ts'
import { capabilitiesIn, toolNames } from '../../../shared/wire/skills.ts'
import { faultInPattern } from '../../platform/outbound-fetch.ts'
import { covers } from '../../tools/planner.ts'

/** `imports`: the interfaces of the world that the component really has. */
type Needs = { readonly manifest: UnboundManifest; readonly imports: readonly SkillCapability[] }
type Audited = Needs & { readonly contents: SkillContents }

export function audit(audited: Audited): Result<SkillWarning[]> {
  const held = holding(audited)
  return held.ok
    ? ok([
        ...unused(audited),
        ...wide(audited.manifest),
        ...bare(audited.manifest),
        ...high(audited.manifest),
        ...untold(audited),
      ])
    : held
}

/** A manifest that says of its component what is so. */
export function holding(needs: Needs): Result<true> {
  const faults = [...undeclared(needs), ...unnamed(needs.manifest), ...unfounded(needs.manifest)]
  return faults.length > 0
    ? err(failure('invalid_skill', 'the manifest does not hold', faults.slice(0, LIMITS.skill_faults)))
    : ok(true)
}

// ── What is refused ──

const undeclared = ({ manifest, imports }: Needs): FieldError[] =>
  imports
    .filter((name) => !capabilitiesIn(manifest).includes(name))
    .map((name) => ({
      at: '/manifest/capabilities',
      message: `the component imports \`${name}\`, which is not declared; declare it, or build without`,
    }))

const LONGEST_NAME = 64
/** A tool is called by the names of skill and tool together. */
const unnamed = (manifest: UnboundManifest): FieldError[] =>
  toolNames(manifest)
    .filter((name) => name.length > LONGEST_NAME)
    .map((name) => ({
      at: '/manifest/tools',
      message: `\`${name}\` is longer than ${LONGEST_NAME} characters; shorten the skill’s id or the tool’s name`,
    }))

const isWild = { http: (host: string) => host.startsWith('.'), kv: (prefix: string) => prefix === '' }

function unfounded({
  capabilities: { http, kv = [], credentials = [] },
  wildcards = [],
}: UnboundManifest): FieldError[] {
  const hosts = http?.hosts ?? []
  const optIn = (name: 'http' | 'kv', what: string) => ({
    at: `/manifest/capabilities/${name}`,
    message: `${what}; list what is meant, or opt in with \`wildcards = ["${name}"]\``,
  })
  return [
    ...hosts.flatMap((host) => {
      const fault = faultInPattern(host)
      return fault === undefined
        ? []
        : [{ at: '/manifest/capabilities/http', message: `\`${host}\` can never be reached: ${fault}` }]
    }),
    ...(wildcards.includes('http')
      ? []
      : hosts.filter(isWild.http).map((host) => optIn('http', `\`${host}\` means hosts that nobody listed`))),
    ...(wildcards.includes('kv')
      ? []
      : kv.filter(isWild.kv).map(() => optIn('kv', 'an empty prefix means all keys'))),
    ...credentials
      .filter(({ host }) => !hosts.some((pattern) => covers(pattern, host)))
      .map(({ host }) => ({
        at: '/manifest/capabilities/credentials',
        message: `\`${host}\` is none of the hosts of \`http\`; list it there, or leave the credential out`,
      })),
    ...credentials
      .filter(
        (one, index) =>
          credentials.findIndex(({ host, header }) => host === one.host && header === one.header) < index,
      )
      .map(({ host, header }) => ({
        at: '/manifest/capabilities/credentials',
        message: `\`${host}\` is told \`${header}\` twice; name each header of a host once`,
      })),
  ]
}

// ── What is warned of ──

const unused = ({ manifest, imports }: Audited): SkillWarning[] =>
  capabilitiesIn(manifest)
    .filter((name) => !imports.includes(name))
    .map((name) => ({
      code: 'unused_capability',
      detail: `\`${name}\` is declared, and the component does not import it: what is not needed should not be granted`,
    }))

function wide({ capabilities: { http, kv = [] }, wildcards = [] }: UnboundManifest): SkillWarning[] {
  const [hosts, all] = [(http?.hosts ?? []).filter(isWild.http), kv.some(isWild.kv)]
  const idle = wildcards.filter((name) => (name === 'http' ? hosts.length === 0 : !all))
  return [
    ...hosts.map(
      (host): SkillWarning => ({
        code: 'wildcard_host',
        detail: `it may reach every host below \`${host.slice(1)}\`, of which nobody has a list`,
      }),
    ),
    ...(all ? [{ code: 'wildcard_kv' as const, detail: 'it may use all keys of its storage' }] : []),
    ...idle.map(
      (name): SkillWarning => ({
        code: 'wildcard_idle',
        detail: `it opts in to wildcards of \`${name}\`, and has none`,
      }),
    ),
  ]
}

function bare({ capabilities: { secrets = [] }, tools }: UnboundManifest): SkillWarning[] {
  const untyped = tools
    .filter(({ output_schema }) => output_schema === undefined)
    .map(({ name }) => `\`${name}\``)
  return [
    ...secrets.map(
      (name): SkillWarning => ({
        code: 'reads_secret',
        detail: `it reads the secret \`${name}\` itself, and could tell it to whomever it reaches; as a credential it would never hold it`,
      }),
    ),
    ...(untyped.length === 0
      ? []
      : [
          {
            code: 'untyped_output' as const,
            detail: `nothing is promised of what ${untyped.join(', ')} returns: anything that is JSON passes`,
          },
        ]),
  ]
}

const RAISED = ['timeout_ms', 'fuel', 'memory_bytes', 'output_bytes', 'net_bytes', 'net_connections'] as const
/** Four times what a skill gets that says nothing. */
const MUCH = 4
const high = ({ limits }: UnboundManifest): SkillWarning[] =>
  RAISED.filter((name) => (limits[name] ?? 0) >= MUCH * DEFAULT_SKILL_LIMITS[name]).map((name) => ({
    code: 'high_limit',
    detail: `it asks for \`${name}\` of ${limits[name]}; ${DEFAULT_SKILL_LIMITS[name]} are usual`,
  }))

const untold = ({ contents }: Audited): SkillWarning[] =>
  contents.parts.length > 0
    ? []
    : [
        {
          code: 'empty_sbom',
          detail:
            'its bill of materials lists nothing: what is linked in is not known, and no list of vulnerable components can name it',
        },
      ]
