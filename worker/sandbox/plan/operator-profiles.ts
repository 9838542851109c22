// Owns the profiles that an operator defines: a profile of tier C with read-only folders of the
// host and another size of /tmp. A folder that would break the isolation (with a socket or device,
// the worker's own folder, the root) is refused when the configuration is read. Each profile is
// proven by the canaries of the one that it extends. argv.ts turns them into an argv.

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
/** Entries that are searched for sockets and devices. The operator names parts of a larger tree. */
const ENTRIES_MAX = 50_000

export const TMP_BYTES_MAX = 1_024 * MiB

const OperatorProfile = z.strictObject({
  /** The profile that it extends. c_offline: for calls without hosts. c_relayed: with hosts. */
  from: z.enum(['c_offline', 'c_relayed']),
  /** Folders of the host, read-only, at the same path in the sandbox. */
  ro_binds: z.array(z.string().max(4_096)).max(32).default([]),
  tmp_bytes: z.int().min(MiB).max(TMP_BYTES_MAX).optional(),
})
export type OperatorProfile = z.infer<typeof OperatorProfile>
export const OperatorProfiles = z
  .record(z.string().regex(PATTERNS.name), OperatorProfile)
  .refine(
    (all) => Object.keys(all).length <= PROFILES_MAX,
    `a worker may define at most ${PROFILES_MAX} profiles`,
  )
  .default({})
export type OperatorProfiles = z.infer<typeof OperatorProfiles>

/**
 * Paths that a sandbox has its own version of, or that only the host may have; canaries check them.
 */
const RESERVED =
  '/bin /boot /dev /home /input /lib /lib64 /proc /root /run /sbin /sys /tmp /usr /var /workspace'.split(' ')

const within = (path: string, folder: string): boolean =>
  path === folder || path.startsWith(folder === sep ? sep : `${folder}${sep}`)

/** Why these profiles can't be used on this host; undefined if they can. */
export function faultOf(profiles: OperatorProfiles, home: string): string | undefined {
  const binds = Object.entries(profiles).flatMap(([name, { ro_binds }]) =>
    ro_binds.map((path) => [name, path] as const),
  )
  return binds.flatMap(([name, path]) =>
    faultOfBind(path, home).map((fault) => `\`${name}\` can’t bind \`${path}\`: ${fault}`),
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
  if ([sep, '/etc'].includes(path)) return ['it holds more than a tool needs; name a folder in it']
  if (RESERVED.some((folder) => within(path, folder)))
    return ['sandboxes have their own folder there, or must not have it; move the files elsewhere']
  if (within(path, home) || within(home, path))
    return ['it contains the worker’s own folder or lies in it; name another folder']
  try {
    if (realpathSync(path) !== path) return [`it is a link to \`${realpathSync(path)}\`; name that path`]
    return faultInside(path)
  } catch (error) {
    return [`it can’t be read (${error instanceof Error && 'code' in error ? error.code : 'unknown error'})`]
  }
}

/**
 * Without this check a tool could connect to a socket in the folder if the filter ever failed
 * (S26).
 */
function faultInside(folder: string): string[] {
  const pending = [folder]
  let entries = 0
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      entries += 1
      if (entries > ENTRIES_MAX) return [`it holds more than ${ENTRIES_MAX} entries; name parts of it`]
      if (isSocketOrDevice(entry))
        return [`\`${join(at, entry.name)}\` is a socket, a pipe or a device; name a folder without one`]
      if (entry.isDirectory()) pending.push(join(at, entry.name))
    }
  }
  return []
}

const isSocketOrDevice = (entry: Dirent): boolean =>
  entry.isSocket() || entry.isFIFO() || entry.isBlockDevice() || entry.isCharacterDevice()

/** The profile that the plan names, if this worker defines it and it extends the plan's profile. */
export function operatorProfileOf(
  { profile: name }: Plan,
  base: ProfileName,
  profiles: OperatorProfiles,
): Result<OperatorProfile | undefined, Refusal> {
  if (name === undefined) return ok(undefined)
  const own = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (own === undefined)
    return err(
      refused(
        'sandbox_unavailable',
        `this worker has no profile \`${name}\`; add it to \`profiles\` in its configuration`,
      ),
    )
  if (own.from === base) return ok(own)
  return err(
    refused(
      'sandbox_unavailable',
      `the profile \`${name}\` extends \`${own.from}\`, but this plan needs one that extends \`${base}\``,
    ),
  )
}

/** Mounted after those of every sandbox: a later mount hides an earlier one. */
export const operatorMounts = ({ ro_binds, tmp_bytes }: OperatorProfile): string[] => [
  ...ro_binds.flatMap((path) => ['--ro-bind', path, path]),
  ...(tmp_bytes === undefined ? [] : ['--perms', '1777', '--size', `${tmp_bytes}`, '--tmpfs', '/tmp']),
]

/** The digest that identifies the profile in an attestation. */
export const profileDigest = (base: string, own: OperatorProfile | undefined): string =>
  own === undefined
    ? base
    : createHash('sha256')
        .update(JSON.stringify({ base, mounts: operatorMounts(own) }))
        .digest('hex')
