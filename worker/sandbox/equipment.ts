// The equipment that all calls share, made once when the worker starts: seccomp filters, pipes, the
// spawner, the first relay, cgroups, and the digests of the profiles.

import { createHash } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Result } from '../../shared/result.ts'
import { namelessFile, scratchFolder } from '../host/file-descriptors.ts'
import { removeLeftOvers, writeProgram } from '../host/owned-folders.ts'
import { initProgram } from './kernel/init.ts'
import { type SocketMode, seccompProgram } from './kernel/seccomp.ts'
import { launcherProgram } from './kernel/tier-b-fence.ts'
import { Groups } from './limits/cgroups.ts'
import { RelayStock } from './network/relay.ts'
import { joinAuthorities } from './network/trusted-cas.ts'
import { OUR_INIT } from './plan/argv.ts'
import { type Host, obstacles, wrongPlatform } from './plan/host-programs.ts'
import type { OperatorProfiles } from './plan/operator-profiles.ts'
import { BWRAP_AFTER, BWRAP_BEFORE, PROFILES, type ProfileName, RLIMITS } from './plan/profiles.ts'
import { endOrphans, type Orphans } from './process/orphans.ts'
import { PipeStock } from './process/pipes.ts'
import { Spawner } from './process/spawner.ts'

export type SandboxOptions = {
  /**
   * A folder that only the worker's user may enter, for tier B calls and relays. Left-overs of
   * killed workers in it are removed.
   */
  readonly folder: string
  /**
   * Exact `host:port` that the proxy may reach at a private address, from the worker's
   * configuration.
   */
  readonly privateHosts?: readonly string[]
  /** PEM certificates of authorities that tools trust besides those of the host. */
  readonly authorities?: string | undefined
  /** The operator's own profiles, by name. */
  readonly profiles?: OperatorProfiles
}

export type Equipment = {
  readonly host: Host
  readonly folder: string
  /** A folder for nameless files. */
  readonly scratch: string
  readonly devNull: number
  readonly pipes: PipeStock
  /** Undefined if the worker starts sandboxes itself. */
  readonly spawner: Spawner | undefined
  /** Nameless files with the compiled filters; undefined if there is no filter for this machine. */
  readonly filters: Readonly<Record<SocketMode, NamelessFile>> | undefined
  /** The path of the tier B launcher; undefined if there is no filter for this machine. */
  readonly tierBLauncher: string | undefined
  /**
   * A nameless file with the program of process 1; undefined for a processor without machine code
   * here.
   */
  readonly init: NamelessFile | undefined
  readonly relays: RelayStock | undefined
  /** The cgroups, or the reason why calls have none here. */
  readonly groups: Result<Groups, string>
  /** The sandboxes of dead workers that this one found at its start. */
  readonly orphans: Orphans
  readonly privateHosts: ReadonlySet<string>
  /** The CA bundle for tools with egress; undefined if the host's own suffices. */
  readonly authorities: string | undefined
  readonly profileDigests: Readonly<Record<ProfileName, string>>
  readonly profiles: OperatorProfiles
}
/** A nameless file and its content. */
export type NamelessFile = { readonly bytes: Buffer; readonly fd: number }

/**
 * Works on any host: what the host lacks fails in the proof, and calls that need it are refused.
 */
export async function equip(
  host: Host,
  { folder, privateHosts = [], authorities, profiles = {} }: SandboxOptions,
): Promise<Equipment> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const scratch = scratchFolder()
  const orphans = await endOrphans() // before their folders are removed or reused
  await Promise.all([folder, scratch].map(removeLeftOvers))
  const filters = filtersFor(host, scratch)
  const init = host.machine === undefined ? undefined : fillNamelessFile(scratch, initProgram(host.machine))
  const canRelay = wrongPlatform(host) === undefined && obstacles(host, 'egress').length === 0
  const relays = canRelay ? new RelayStock(host.programs, folder) : undefined
  relays?.stock()
  return {
    host,
    folder,
    scratch,
    devNull: openSync('/dev/null', 'r'),
    pipes: PipeStock.open(host.programs.mkfifo, scratch),
    spawner:
      host.machine === undefined || obstacles(host, 'prepared').length > 0
        ? undefined
        : new Spawner(host, host.machine),
    filters,
    tierBLauncher: writeLauncher(host, filters, folder),
    init,
    relays,
    groups: Groups.open(host.machine, folder),
    orphans,
    privateHosts: new Set(privateHosts),
    authorities: authorities === undefined ? undefined : await joinAuthorities(folder, authorities),
    profiles,
    profileDigests: {
      b_host: profileDigest('b_host', undefined, undefined),
      c_offline: profileDigest('c_offline', filters, init),
      c_relayed: profileDigest('c_relayed', filters, init),
    },
  }
}

export async function unequip({ devNull, pipes, spawner, filters, init, relays }: Equipment): Promise<void> {
  closeSync(devNull)
  if (init !== undefined) closeSync(init.fd)
  await pipes.close()
  await spawner?.close()
  for (const { fd } of Object.values(filters ?? {})) closeSync(fd)
  await relays?.close()
}

function filtersFor({ machine }: Host, scratch: string): Equipment['filters'] {
  if (machine === undefined) return undefined
  const filter = (mode: SocketMode): NamelessFile => fillNamelessFile(scratch, seccompProgram(machine, mode))
  return { no_sockets: filter('no_sockets'), inet: filter('inet'), host: filter('host') }
}

function writeLauncher({ machine }: Host, filters: Equipment['filters'], folder: string): string | undefined {
  if (machine === undefined || filters === undefined) return undefined
  const path = join(folder, 'fence')
  writeProgram(path, launcherProgram(machine, filters.host.bytes))
  return path
}

const fillNamelessFile = (scratch: string, bytes: Buffer): NamelessFile => ({
  bytes,
  fd: namelessFile(scratch, bytes),
})

/**
 * The digest of the profile's definition in this version. Attestations carry it, so its form is
 * fixed.
 */
function profileDigest(name: ProfileName, filters: Equipment['filters'], init: Equipment['init']): string {
  const profile = PROFILES[name]
  const rlimits = RLIMITS[profile.tier].map(({ flag }) => flag)
  const flags = profile.tier === 'B' ? [] : [...BWRAP_BEFORE, ...OUR_INIT, ...BWRAP_AFTER]
  const hash = createHash('sha256').update(JSON.stringify({ name, ...profile, rlimits, walls: flags }))
  if (filters !== undefined) hash.update(filters[profile.sockets].bytes)
  if (init !== undefined) hash.update(init.bytes)
  return hash.digest('hex')
}
