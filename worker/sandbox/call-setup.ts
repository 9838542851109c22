// Owns where one call runs: the folder of tier B, the relay and the proxy of a call that may reach hosts; and that all of it goes when
// the call has ended. It starts no tool.

import { randomBytes } from 'node:crypto'
import type { Connection, ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { faultOf } from '../host/error-report.ts'
import { callFolder, removeFolder } from '../host/owned-folders.ts'
import type { Equipment } from './equipment.ts'
import { CallAuthority } from './network/call-ca.ts'
import { additionsOf } from './network/credentials.ts'
import { Names } from './network/dns.ts'
import { Egress } from './network/egress.ts'
import { checkedAddresses } from './network/host-patterns.ts'
import { serveProxy } from './network/http-proxy.ts'
import { proxyUrl } from './network/relay.ts'
import type { Interception } from './network/tls-intercept.ts'
import { trusted } from './network/trusted-cas.ts'
import type { Admitted, Place } from './plan/argv.ts'
import { infra, type NotRun, refused } from './plan/verdict.ts'
import { newMark } from './process/process-tree.ts'

export type Setting = {
  readonly place: Place
  /** Ends the call's connections and tells of all there were. */
  readonly hangUp: () => readonly Connection[]
  readonly leave: () => Promise<void>
}

/** Of the call, what is not in its plan. */
type Given = {
  readonly runFolder?: string | undefined
  /** The folder that holds the plan's files. */
  readonly inputs?: string | undefined
  /** The folder for what it leaves. */
  readonly outputs?: string | undefined
  readonly secrets?: Readonly<Record<string, string>> | undefined
}

const nothing = (): readonly [] => []

export async function settle(
  equipment: Equipment,
  admitted: Admitted,
  given: Given,
): Promise<Result<Setting, NotRun>> {
  const setting = await placeFor(equipment, admitted, given)
  if (!setting.ok || !equipment.groups.ok) return setting
  const { place, hangUp, leave } = setting.value
  const { memory_bytes, pids } = admitted.plan.limits
  try {
    const processes = pids + (admitted.profile === 'b_host' ? 0 : BWRAP_PROCESSES)
    const group = equipment.groups.value.make({ memory_bytes, processes })
    const leaveAll = async (): Promise<void> => {
      group.close()
      await leave()
    }
    return ok({ place: { ...place, group }, hangUp, leave: leaveAll })
  } catch (error) {
    hangUp()
    await leave()
    return err(
      infra(`the call's cgroup could not be made: ${error instanceof Error ? error.message : error}`),
    )
  }
}

/** bubblewrap itself, and its init in the sandbox. */
const BWRAP_PROCESSES = 2

async function placeFor(
  equipment: Equipment,
  admitted: Admitted,
  { runFolder, inputs, outputs, secrets }: Given,
): Promise<Result<Setting, NotRun>> {
  const { plan, profile } = admitted
  if ((plan.workspace === 'run') !== (runFolder !== undefined))
    throw new Error('a folder is for the plan that shares one')
  if ((plan.files !== undefined) !== (inputs !== undefined))
    throw new Error('files are for the plan that names them')
  if ((plan.outputs !== undefined) !== (outputs !== undefined))
    throw new Error('what is left is for the plan that keeps it')
  if (profile === 'b_host') return onHost(equipment, admitted)
  const folder = {
    ...(runFolder === undefined ? {} : { folder: runFolder }),
    ...(inputs === undefined ? {} : { inputs }),
    ...(outputs === undefined ? {} : { outputs }),
  }
  if (profile === 'c_offline') return ok({ place: folder, hangUp: nothing, leave: async () => undefined })
  return withRelay(equipment, plan, folder, secrets)
}

async function onHost(
  { folder: root, fence, privateHosts }: Equipment,
  { plan, cwd }: Admitted,
): Promise<Result<Setting, NotRun>> {
  if (fence === undefined)
    return err(
      refused('sandbox_unavailable', 'what tier B needs is missing; run `countersign-worker doctor`'),
    )
  const unreachable = await preflight(plan, privateHosts)
  if (unreachable !== undefined) return err(refused('egress_denied', unreachable))
  let folder: string
  try {
    folder = await callFolder(root, cwd)
  } catch (error) {
    return err(infra(`the call's folder could not be made (${faultOf(error).code})`)) // the error's own text tells `cwd`
  }
  return ok({
    place: { folder, mark: newMark(), fence },
    hangUp: nothing,
    leave: async () => {
      await removeFolder(folder)
    },
  })
}

/** Egress `preflight`: what is named must lead to the public internet now. Nothing holds the process to it. */
async function preflight({ egress }: Plan, privateHosts: ReadonlySet<string>): Promise<string | undefined> {
  if (egress.mode !== 'preflight') return undefined
  const names = new Names()
  const named = egress.hosts.filter((pattern) => !pattern.startsWith('.'))
  const checks = named.map(async (pattern) => {
    const [host = '', port = '443'] = pattern.split(':')
    const checked = await checkedAddresses({ host, port: Number(port) }, privateHosts, names.resolve)
    return checked.ok ? [] : [`\`${pattern}\` is not a host on the public internet (${checked.error})`]
  })
  const found = await Promise.all(checks)
  names.close()
  return found.flat()[0]
}

function interceptionFor(
  { credentials = [] }: Plan,
  authorities: string | undefined,
): Interception | undefined {
  if (!credentials.some(({ tls }) => tls === 'intercept')) return undefined
  return { authority: new CallAuthority(), trust: trusted(authorities) }
}

async function withRelay(
  { relays, privateHosts, authorities }: Equipment,
  plan: Plan,
  place: Place,
  secrets: Given['secrets'],
): Promise<Result<Setting, NotRun>> {
  if (relays === undefined)
    return err(
      refused('sandbox_unavailable', 'what egress needs is missing; run `countersign-worker doctor`'),
    )
  let relay: Awaited<ReturnType<typeof relays.take>>
  try {
    relay = await relays.take()
  } catch (error) {
    return err(infra(`the relay could not be prepared: ${error instanceof Error ? error.message : error}`))
  }
  setImmediate(() => relays.stock()) // the next one, while the tool runs
  const token = randomBytes(16).toString('hex')
  const {
    egress: { hosts },
    limits,
  } = plan
  const egress = new Egress({ hosts, additions: additionsOf(plan, secrets), privateHosts, token, limits })
  const interception = interceptionFor(plan, authorities)
  const known =
    interception === undefined
      ? authorities
      : await relay.keep('authorities.pem', `${interception.trust}\n${interception.authority.pem}`)
  const hangUp = serveProxy(relay.server, egress, interception)
  return ok({
    place: { ...place, relay: { pid: relay.pid, proxyUrl: proxyUrl(token), authorities: known } },
    hangUp: () => {
      hangUp()
      return egress.connections
    },
    leave: () => relay.close(),
  })
}
