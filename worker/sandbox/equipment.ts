// Owns what every call needs and no call changes, made once when the worker starts: the filters, the pipes, the first relay, the digests of
// the profiles. It starts no tool.

import { createHash } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Result } from '../../shared/result.ts'
import { namelessFile, scratchFolder } from '../host/file-descriptors.ts'
import { removeLeftOvers, writeProgram } from '../host/owned-folders.ts'
import { initProgram } from './kernel/init.ts'
import { type SocketMode, seccompProgram } from './kernel/seccomp.ts'
import { fenceProgram } from './kernel/tier-b-fence.ts'
import { Groups } from './limits/cgroups.ts'
import { RelayStock } from './network/relay.ts'
import { joinAuthorities } from './network/trusted-cas.ts'
import { OUR_INIT } from './plan/argv.ts'
import { type Host, obstacles, wrongPlatform } from './plan/host-programs.ts'
import type { OwnProfiles } from './plan/operator-profiles.ts'
import { BWRAP_AFTER, BWRAP_BEFORE, PROFILES, type ProfileName, RLIMITS } from './plan/profiles.ts'
import { endOrphans, type Orphans } from './process/orphans.ts'
import { PipeStock } from './process/pipes.ts'
import { Spawner } from './process/spawner.ts'

export type SandboxOptions = {
  /** A folder of the worker's user alone: for the calls of tier B and relays. Left-overs of killed workers are removed. */
  readonly folder: string
  /** Exact `host:port` that the proxy may reach although the address is private. An operator's decision, in the worker's configuration. */
  readonly privateHosts?: readonly string[]
  /** Certificates in PEM, of authorities that tools trust beside those of the host. */
  readonly authorities?: string | undefined
  /** By name: what an operator adds to the table. */
  readonly profiles?: OwnProfiles
}

export type Equipment = {
  readonly host: Host
  readonly folder: string
  /** Holds files without a name. */
  readonly scratch: string
  readonly devNull: number
  readonly pipes: PipeStock
  /** None where the worker starts sandboxes itself. */
  readonly spawner: Spawner | undefined
  /** Nameless files with the compiled filters; none where no filter is known for the machine. */
  readonly filters: Readonly<Record<SocketMode, Filled>> | undefined
  /** The program that puts tier B around a command; none where no filter is known. */
  readonly fence: string | undefined
  /** A nameless file with the program of process 1; undefined for a processor without machine code here. */
  readonly init: Filled | undefined
  readonly relays: RelayStock | undefined
  /** Or why calls have no cgroups here. */
  readonly groups: Result<Groups, string>
  /** The sandboxes of dead workers that this one found at its start. */
  readonly orphans: Orphans
  readonly privateHosts: ReadonlySet<string>
  /** The file for tools that reach hosts; none where the host's authorities are all. */
  readonly authorities: string | undefined
  readonly profileDigests: Readonly<Record<ProfileName, string>>
  readonly profiles: OwnProfiles
}
/** A nameless file, and what is in it. */
export type Filled = { readonly bytes: Buffer; readonly fd: number }

/** Works on any host: what is lacking shows in the proof, and is refused. */
export async function equip(
  host: Host,
  { folder, privateHosts = [], authorities, profiles = {} }: SandboxOptions,
): Promise<Equipment> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const scratch = scratchFolder()
  const orphans = await endOrphans() // before their folders are removed or entered
  await Promise.all([folder, scratch].map(removeLeftOvers))
  const filters = filtersFor(host, scratch)
  const init = host.machine === undefined ? undefined : filled(scratch, initProgram(host.machine))
  const able = wrongPlatform(host) === undefined && obstacles(host, 'egress').length === 0
  const relays = able ? new RelayStock(host.programs, folder) : undefined
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
    fence: fenceFor(host, filters, folder),
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
  const filter = (mode: SocketMode): Filled => filled(scratch, seccompProgram(machine, mode))
  return { no_sockets: filter('no_sockets'), inet: filter('inet'), host: filter('host') }
}

function fenceFor({ machine }: Host, filters: Equipment['filters'], folder: string): string | undefined {
  if (machine === undefined || filters === undefined) return undefined
  const path = join(folder, 'fence')
  writeProgram(path, fenceProgram(machine, filters.host.bytes))
  return path
}

const filled = (scratch: string, bytes: Buffer): Filled => ({ bytes, fd: namelessFile(scratch, bytes) })

/** What the profile's name stands for in this version: an attestation carries it. */
function profileDigest(name: ProfileName, filters: Equipment['filters'], init: Equipment['init']): string {
  const profile = PROFILES[name]
  const rlimits = RLIMITS[profile.tier].map(({ flag }) => flag)
  const walls = profile.tier === 'B' ? [] : [...BWRAP_BEFORE, ...OUR_INIT, ...BWRAP_AFTER]
  const hash = createHash('sha256').update(JSON.stringify({ name, ...profile, rlimits, walls }))
  if (filters !== undefined) hash.update(filters[profile.sockets].bytes)
  if (init !== undefined) hash.update(init.bytes)
  return hash.digest('hex')
}
