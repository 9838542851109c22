// Audits a skill's manifest against its component: contradictions refuse the package; facts that
// the operator who enables it should know become warnings, stored with the version. Pure.

import type { FieldError } from '../../../shared/failures.ts'
import { failure } from '../../../shared/failures.ts'
import { PATTERNS } from '../../../shared/ids.ts'
import { DEFAULT_SKILL_LIMITS, LIMITS } from '../../../shared/limits.ts'
import type { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { SkillContents, SkillWarning, UnboundManifest } from '../../../shared/wire/skills.ts'
import { declaredCapabilities, toolNames } from '../../../shared/wire/skills.ts'
import { faultInPattern } from '../../platform/outbound-fetch.ts'
import { covers } from '../../tools/planner.ts'
import { faultInToolName } from '../../tools/tool-names.ts'

/** `imports`: the interfaces of the world that the component imports. */
type Needs = { readonly manifest: UnboundManifest; readonly imports: readonly SkillCapability[] }
type Audited = Needs & { readonly contents: SkillContents }

export function audit(audited: Audited): Result<SkillWarning[]> {
  const checked = checkManifest(audited)
  return checked.ok
    ? ok([
        ...unusedCapabilities(audited),
        ...wildcardWarnings(audited.manifest),
        ...secretAndOutputWarnings(audited.manifest),
        ...highLimits(audited.manifest),
        ...emptySbomWarning(audited),
      ])
    : checked
}

/** Refuses a manifest that contradicts its component or itself. */
export function checkManifest(needs: Needs): Result<true> {
  const faults = [
    ...undeclared(needs),
    ...faultsInToolNames(needs.manifest),
    ...faultsInCapabilities(needs.manifest),
  ]
  return faults.length > 0
    ? err(failure('invalid_skill', 'the manifest has errors', faults.slice(0, LIMITS.skill_faults)))
    : ok(true)
}

// ── Errors ──

const undeclared = ({ manifest, imports }: Needs): FieldError[] =>
  imports
    .filter((name) => !declaredCapabilities(manifest).includes(name))
    .map((name) => ({
      at: '/manifest/capabilities',
      message: `the component imports \`${name}\`, which the manifest does not declare; declare it, or build without it`,
    }))

const faultsInToolNames = (manifest: UnboundManifest): FieldError[] =>
  toolNames(manifest).flatMap((name) => {
    const message = PATTERNS.tool.test(name) ? faultInToolName(name) : tooLong(name)
    return message === undefined ? [] : [{ at: '/manifest/tools', message }]
  })

/**
 * The manifest's schema checked both parts of the name, so only their length together can be wrong.
 */
const tooLong = (name: string): string =>
  `agents would call the tool \`${name}\`, which has ${name.length} characters; model providers accept at most ${LIMITS.tool_name_chars}: shorten the skill’s id or the tool’s name`

const isWild = { http: (host: string) => host.startsWith('.'), kv: (prefix: string) => prefix === '' }

function faultsInCapabilities({
  capabilities: { http, kv = [], credentials = [] },
  wildcards = [],
}: UnboundManifest): FieldError[] {
  const hosts = http?.hosts ?? []
  const optIn = (name: 'http' | 'kv', what: string) => ({
    at: `/manifest/capabilities/${name}`,
    message: `${what}; list those that are needed, or opt in with \`wildcards = ["${name}"]\``,
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
      : hosts
          .filter(isWild.http)
          .map((host) => optIn('http', `\`${host}\` stands for hosts that are not listed`))),
    ...(wildcards.includes('kv')
      ? []
      : kv.filter(isWild.kv).map(() => optIn('kv', 'an empty prefix grants all keys'))),
    ...credentials
      .filter(({ host }) => !hosts.some((pattern) => covers(pattern, host)))
      .map(({ host }) => ({
        at: '/manifest/capabilities/credentials',
        message: `\`${host}\` is not one of the hosts of \`http\`; list it there, or leave the credential out`,
      })),
    ...credentials
      .filter(
        (one, index) =>
          credentials.findIndex(({ host, header }) => host === one.host && header === one.header) < index,
      )
      .map(({ host, header }) => ({
        at: '/manifest/capabilities/credentials',
        message: `\`${host}\` has two credentials for the header \`${header}\`; declare each header of a host once`,
      })),
  ]
}

// ── Warnings ──

const unusedCapabilities = ({ manifest, imports }: Audited): SkillWarning[] =>
  declaredCapabilities(manifest)
    .filter((name) => !imports.includes(name))
    .map((name) => ({
      code: 'unused_capability',
      detail: `\`${name}\` is declared, but the component does not import it; a skill should not be granted what it does not need`,
    }))

function wildcardWarnings({
  capabilities: { http, kv = [] },
  wildcards = [],
}: UnboundManifest): SkillWarning[] {
  const [hosts, all] = [(http?.hosts ?? []).filter(isWild.http), kv.some(isWild.kv)]
  const idle = wildcards.filter((name) => (name === 'http' ? hosts.length === 0 : !all))
  return [
    ...hosts.map(
      (host): SkillWarning => ({
        code: 'wildcard_host',
        detail: `it may reach every host under \`${host.slice(1)}\`, and those are not listed anywhere`,
      }),
    ),
    ...(all ? [{ code: 'wildcard_kv' as const, detail: 'it may use all keys of its storage' }] : []),
    ...idle.map(
      (name): SkillWarning => ({
        code: 'wildcard_idle',
        detail: `it opts in to wildcards for \`${name}\`, but uses none`,
      }),
    ),
  ]
}

function secretAndOutputWarnings({ capabilities: { secrets = [] }, tools }: UnboundManifest): SkillWarning[] {
  const untyped = tools
    .filter(({ output_schema }) => output_schema === undefined)
    .map(({ name }) => `\`${name}\``)
  return [
    ...secrets.map(
      (name): SkillWarning => ({
        code: 'reads_secret',
        detail: `it reads the secret \`${name}\` itself and could send it to any host it reaches; a credential is added outside of the skill, which never sees it`,
      }),
    ),
    ...(untyped.length === 0
      ? []
      : [
          {
            code: 'untyped_output' as const,
            detail: `${untyped.join(', ')} declares no output schema: any JSON passes`,
          },
        ]),
  ]
}

const RAISABLE_LIMITS = [
  'timeout_ms',
  'fuel',
  'memory_bytes',
  'output_bytes',
  'net_bytes',
  'net_connections',
] as const
/** How many times the default a limit must be to be warned about. */
const HIGH_LIMIT_FACTOR = 4
const highLimits = ({ limits }: UnboundManifest): SkillWarning[] =>
  RAISABLE_LIMITS.filter((name) => (limits[name] ?? 0) >= HIGH_LIMIT_FACTOR * DEFAULT_SKILL_LIMITS[name]).map(
    (name) => ({
      code: 'high_limit',
      detail: `it asks for a \`${name}\` of ${limits[name]}; the default is ${DEFAULT_SKILL_LIMITS[name]}`,
    }),
  )

const emptySbomWarning = ({ contents }: Audited): SkillWarning[] =>
  contents.parts.length > 0
    ? []
    : [
        {
          code: 'empty_sbom',
          detail:
            'its bill of materials is empty: linked components are unknown, and no list of vulnerable components can match them',
        },
      ]
