// Owns the profiles that an operator adds to the table: tier C as it is, with folders of the host to read and another size of /tmp. They
// can only add what is read. What would open the wall (a socket, a device, the worker's own folder, the root) is refused when they are
// read, and each is proven by the canaries of the profile that it is made from. How they become an argv is argv.ts.

import { createHash } from 'node:crypto'
import { type Dirent, readdirSync, realpathSync } from 'node:fs'
import { join, normalize, sep } from 'node:path'
import { z } from 'zod'
import { PROFILES_MAX } from '../../../shared/evidence/worker-proof.ts'
import { PATTERNS } from '../../../shared/ids.ts'
import type { ProcessPlan as Plan } from '../../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../../shared/result.ts'
import type { ProfileName } from './profiles.ts'
import { type Refusal, refused } from './verdict.ts'

const MiB = 1024 * 1024
/** What is looked through for sockets and devices. A tree that is larger is named in parts. */
const ENTRIES_MAX = 50_000

export const TMP_BYTES_MAX = 1_024 * MiB

const OwnProfile = z.strictObject({
  /** c_offline: for calls without hosts. c_relayed: for calls with hosts. */
  from: z.enum(['c_offline', 'c_relayed']),
  /** Folders of the host, there under their own names, to read only. */
  ro_binds: z.array(z.string().max(4_096)).max(32).default([]),
  tmp_bytes: z.int().min(MiB).max(TMP_BYTES_MAX).optional(),
})
export type OwnProfile = z.infer<typeof OwnProfile>
export const OwnProfiles = z
  .record(z.string().regex(PATTERNS.name), OwnProfile)
  .refine(
    (all) => Object.keys(all).length <= PROFILES_MAX,
    `a worker has ${PROFILES_MAX} profiles of its own at the most`,
  )
  .default({})
export type OwnProfiles = z.infer<typeof OwnProfiles>

/** What a sandbox has of its own there, or what is the host's alone: canaries look for it. */
const TAKEN =
  '/bin /boot /dev /home /input /lib /lib64 /proc /root /run /sbin /sys /tmp /usr /var /workspace'.split(' ')

const within = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === sep ? sep : `${folder}${sep}`)

/** Why these can't be used on this host; undefined if they can. */
export function faultOf(profiles: OwnProfiles, home: string): string | undefined {
  const binds = Object.entries(profiles).flatMap(([name, { ro_binds }]) =>
    ro_binds.map((path) => [name, path] as const),
  )
  return binds.flatMap(([name, path]) =>
    faultOfBind(path, home).map((fault) => `\`${name}\` can't bind \`${path}\`: ${fault}`),
  )[0]
}

function faultOfBind(path: string, home: string): string[] {
  if (
    !path.startsWith(sep) ||
    normalize(path) !== path ||
    path.includes('\0') ||
    (path !== sep && path.endsWith(sep))
  )
    return ['write an absolute path, without `..` and without a slash at its end']
  if ([sep, '/etc'].includes(path)) return ['it holds more than a tool needs; name the folder in it']
  if (TAKEN.some((folder) => within(path, folder))) return ['a sandbox has its own there, or none']
  if (within(path, home) || within(home, path)) return ['the worker’s own folder is in it']
  try {
    if (realpathSync(path) !== path) return [`it is a link to \`${realpathSync(path)}\`; name that`]
    return faultInside(path)
  } catch (error) {
    return [`it can't be read (${error instanceof Error && 'code' in error ? error.code : 'unknown error'})`]
  }
}

/** A socket in it could be connected to, should the filter ever fail (S26). */
function faultInside(folder: string): string[] {
  const waiting = [folder]
  let entries = 0
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      entries += 1
      if (entries > ENTRIES_MAX) return [`it holds more than ${ENTRIES_MAX} entries; name parts of it`]
      if (isDoor(entry)) return [`\`${join(at, entry.name)}\` is a socket, a pipe or a device`]
      if (entry.isDirectory()) waiting.push(join(at, entry.name))
    }
  }
  return []
}

const isDoor = (entry: Dirent): boolean =>
  entry.isSocket() || entry.isFIFO() || entry.isBlockDevice() || entry.isCharacterDevice()

/** The profile that the plan names, if this worker has it and it is made for such a plan. */
export function ownProfileOf(
  { profile: name }: Plan,
  base: ProfileName,
  profiles: OwnProfiles,
): Result<OwnProfile | undefined, Refusal> {
  if (name === undefined) return ok(undefined)
  const own = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (own === undefined)
    return err(
      refused(
        'sandbox_unavailable',
        `this worker has no profile \`${name}\`; add it to \`profiles\` of its configuration`,
      ),
    )
  if (own.from === base) return ok(own)
  return err(
    refused(
      'sandbox_unavailable',
      `the profile \`${name}\` is made from \`${own.from}\`, and this plan is one of \`${base}\``,
    ),
  )
}

/** After what every sandbox has: what is mounted last is what is seen. */
export const ownMounts = ({ ro_binds, tmp_bytes }: OwnProfile): string[] => [
  ...ro_binds.flatMap((path) => ['--ro-bind', path, path]),
  ...(tmp_bytes === undefined ? [] : ['--perms', '1777', '--size', `${tmp_bytes}`, '--tmpfs', '/tmp']),
]

/** What stands for a profile of this worker's in an attestation. */
export const ownDigest = (base: string, own: OwnProfile | undefined): string =>
  own === undefined
    ? base
    : createHash('sha256')
        .update(JSON.stringify({ base, mounts: ownMounts(own) }))
        .digest('hex')
