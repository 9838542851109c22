// The worker's configuration, read once from a file and the environment. The file holds the Redis
// password, so it must belong to our user and be readable by that user alone.

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { availableParallelism } from 'node:os'
import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { PATTERNS } from '../shared/ids.ts'
import { LIMITS } from '../shared/limits.ts'
import { Limits, Tier } from '../shared/plan/plan.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { inOneLine, readAs } from '../shared/schema/field-errors.ts'
import { readAuthorities } from './sandbox/network/trusted-cas.ts'
import { faultOf, OperatorProfiles } from './sandbox/plan/operator-profiles.ts'

/** A sentence for the operator: what is wrong and how to fix it. */
export type Refusal = string

/**
 * A sandbox that uid 0 starts offers ways to become root of the host, so root never starts bwrap.
 */
export const refuseRoot = (): Result<void, Refusal> =>
  process.geteuid?.() === 0
    ? err(
        'the worker does not run as root; start it as a dedicated user, for example `setpriv --reuid countersign --regid countersign --init-groups node worker/main.ts …`',
      )
    : ok(undefined)

const url = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined)
const loopback = (host: string): boolean =>
  host === 'localhost' || host === '[::1]' || (isIPv4(host) && host.startsWith('127.'))

function edgeUrlFault(text: string): string | undefined {
  const { protocol, hostname, origin, href } = url(text) ?? {}
  if (hostname === undefined || !/^https?:$/.test(protocol ?? ''))
    return 'give the edge’s address, such as `https://edge.example.com`'
  if (href !== `${origin}/`) return 'give scheme, host and port only'
  // Responses to claims contain arguments, so they must be encrypted on the network (L7).
  return protocol === 'https:' || loopback(hostname)
    ? undefined
    : 'use https; plain http is for loopback only'
}

const Fields = z.strictObject({
  edge_url: z.string().superRefine((text, { addIssue }) => {
    const fault = edgeUrlFault(text)
    if (fault !== undefined) addIssue(fault)
  }),
  tenant: z.string().regex(PATTERNS.tenant),
  pool: z.string().regex(PATTERNS.name),
  redis_url: z
    .string()
    .refine(
      (text) => /^rediss?:$/.test(url(text)?.protocol ?? ''),
      'give an address such as `rediss://user:password@host:6379`',
    ),
  /** Holds the key, the spool and the run folders. */
  home: z.string().refine(isAbsolute, 'give an absolute path'),
  concurrency: z
    .int()
    .min(1)
    .max(1_000)
    .default(() => 2 * availableParallelism()),
  /** The tiers that this worker runs, once it has proven them. */
  tiers: z
    .array(Tier)
    .min(1)
    .default([...Tier.options]),
  /** Ceilings: a call gets the lower of its plan's limit and this one. */
  limits: Limits.partial().default({}),
  /** Disk that all run folders together may use, and disk that they must leave free. */
  runs_bytes: z.int().min(1).default(LIMITS.run_folders_bytes),
  free_bytes: z.int().min(0).default(LIMITS.disk_free_bytes),
  /** Hosts that the egress proxy may reach at a private address. */
  private_hosts: z
    .array(
      z
        .string()
        .regex(/^(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+):[1-9][0-9]{0,4}$/, 'give `host:port` in lower case'),
    )
    .max(64)
    .default([]),
  /** PEM file of certificate authorities that tools trust besides those of the host. */
  ca_file: z
    .string()
    .refine(isAbsolute, { error: 'give an absolute path', abort: true })
    .superRefine((path, { addIssue }) => {
      const read = readAuthorities(path)
      if (!read.ok) addIssue(read.error)
    })
    .optional(),
  /** The operator's own sandbox profiles; a tool's contract may name one. */
  profiles: OperatorProfiles,
  /** The time that running calls may continue after SIGTERM. */
  drain_ms: z
    .int()
    .min(0)
    .max(30 * 60_000)
    .default(20_000),
})
export const Config = Fields.superRefine(({ profiles, home }, { addIssue }) => {
  const fault = faultOf(profiles, home)
  if (fault !== undefined) addIssue({ code: 'custom', path: ['profiles'], message: fault })
})
export type Config = z.infer<typeof Config>

const PREFIX = 'COUNTERSIGN_WORKER_'
const NUMBERS = new Set(['concurrency', 'drain_ms', 'runs_bytes', 'free_bytes'])
const LISTS = new Set(['private_hosts', 'tiers'])

type Environment = Readonly<Record<string, string | undefined>>

export function readConfig(path: string, environment: Environment = process.env): Result<Config, Refusal> {
  const text = readPrivate(path)
  if (!text.ok) return err(`the configuration \`${path}\` ${text.error}`)
  let file: unknown
  try {
    file = JSON.parse(text.value)
  } catch {
    return err(`the configuration \`${path}\` is not JSON; fix its syntax`)
  }
  if (typeof file !== 'object' || file === null)
    return err(`the configuration \`${path}\` is not a JSON object; --help shows what it holds`)
  const read = readAs(Config, { ...file, ...overrides(environment) })
  return read.ok ? read : err(`the configuration \`${path}\` can’t be used; ${inOneLine(read.error)}`)
}

/**
 * Values from the environment override the file. `Number` makes NaN of a bad number, which the
 * schema then rejects by name.
 */
function overrides(environment: Environment): Record<string, unknown> {
  const set = Object.entries(environment).filter(
    ([name, value]) => name.startsWith(PREFIX) && value !== undefined && value !== '',
  )
  return Object.fromEntries(
    set.map(([name, value = '']) => {
      const key = name.slice(PREFIX.length).toLowerCase()
      if (LISTS.has(key)) return [key, value.split(',').map((item) => item.trim())]
      return [key, NUMBERS.has(key) && value.trim() !== '' ? Number(value) : value]
    }),
  )
}

/**
 * Reads a file that only our user may read. Checks the open descriptor, so that the checked file is
 * the one that is read.
 */
export function readPrivate(path: string): Result<string, Refusal> {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    return err(
      `can’t be read (${error instanceof Error && 'code' in error ? error.code : 'unknown error'}); check that it exists and that this user may read it`,
    )
  }
  try {
    const { mode, uid } = fstatSync(file)
    if (uid !== process.geteuid?.())
      return err(
        `belongs to uid ${uid}, but the worker runs as uid ${process.geteuid?.()}; chown it to the user that runs the worker`,
      )
    if ((mode & 0o077) !== 0)
      return err(`can be read by others (mode ${(mode & 0o777).toString(8)}); run \`chmod 600\` on it`)
    return ok(readFileSync(file, 'utf8'))
  } finally {
    closeSync(file)
  }
}

/** Read from the environment, never from argv, which every process of the host can read. */
export const enrolmentToken = (environment: Environment = process.env): string | undefined =>
  environment['COUNTERSIGN_ENROL_TOKEN']

/** Our environment plus `more`, for the process that replaces us. */
export const environmentWith = (more: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries({ ...process.env, ...more }).filter(
      (entry): entry is [string, string] => entry[1] !== undefined,
    ),
  )
