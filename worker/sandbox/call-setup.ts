// Sets up what one call needs on the host (the folder of tier B, the cgroup, the relay and proxy of
// a call with egress) and removes it again when the call has ended.

import { randomBytes } from 'node:crypto'
import type { Connection, ProcessPlan as Plan } from '../../shared/plan/plan.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import { errorReport } from '../host/error-report.ts'
import { callFolder, removeFolder } from '../host/owned-folders.ts'
import type { Equipment } from './equipment.ts'
import { CallAuthority } from './network/call-ca.ts'
import { additionsOf } from './network/credentials.ts'
import { NameResolver } from './network/dns.ts'
import { Egress } from './network/egress.ts'
import { checkedAddresses } from './network/host-patterns.ts'
import { serveProxy } from './network/http-proxy.ts'
import { proxyUrl } from './network/relay.ts'
import type { Interception } from './network/tls-intercept.ts'
import { trustedCertificates } from './network/trusted-cas.ts'
import type { AdmittedPlan, CallResources } from './plan/argv.ts'
import { infra, type NotRun, refused } from './plan/verdict.ts'
import { newMark } from './process/process-tree.ts'

export type CallSetup = {
  readonly place: CallResources
  /** Closes the call's connections and returns the log of all it had. */
  readonly closeConnections: () => readonly Connection[]
  readonly tearDown: () => Promise<void>
}

/** The parts of a call that its plan does not hold. */
type SetupInputs = {
  readonly runFolder?: string | undefined
  /** The folder with the plan's input files. */
  readonly inputs?: string | undefined
  /** The folder for output files. */
  readonly outputs?: string | undefined
  readonly secrets?: Readonly<Record<string, string>> | undefined
}

const noConnections = (): readonly [] => []

export async function setUpCall(
  equipment: Equipment,
  admitted: AdmittedPlan,
  inputs: SetupInputs,
): Promise<Result<CallSetup, NotRun>> {
  const setting = await placeFor(equipment, admitted, inputs)
  if (!setting.ok || !equipment.groups.ok) return setting
  const { place, closeConnections, tearDown } = setting.value
  const { memory_bytes, pids } = admitted.plan.limits
  try {
    const processes = pids + (admitted.profile === 'b_host' ? 0 : BWRAP_PROCESSES)
    const group = equipment.groups.value.make({ memory_bytes, processes })
    const tearDownWithGroup = async (): Promise<void> => {
      group.close()
      await tearDown()
    }
    return ok({ place: { ...place, group }, closeConnections, tearDown: tearDownWithGroup })
  } catch (error) {
    closeConnections()
    await tearDown()
    return err(
      infra(`the call’s cgroup could not be created: ${error instanceof Error ? error.message : error}`),
    )
  }
}

/** bubblewrap itself, and the init process in the sandbox. */
const BWRAP_PROCESSES = 2

async function placeFor(
  equipment: Equipment,
  admitted: AdmittedPlan,
  { runFolder, inputs, outputs, secrets }: SetupInputs,
): Promise<Result<CallSetup, NotRun>> {
  const { plan, profile } = admitted
  if ((plan.workspace === 'run') !== (runFolder !== undefined))
    throw new Error('a run folder must be given if and only if the plan shares one')
  if ((plan.files !== undefined) !== (inputs !== undefined))
    throw new Error('an input folder must be given if and only if the plan names files')
  if ((plan.outputs !== undefined) !== (outputs !== undefined))
    throw new Error('an output folder must be given if and only if the plan collects files')
  if (profile === 'b_host') return forTierB(equipment, admitted)
  const folder = {
    ...(runFolder === undefined ? {} : { folder: runFolder }),
    ...(inputs === undefined ? {} : { inputs }),
    ...(outputs === undefined ? {} : { outputs }),
  }
  if (profile === 'c_offline')
    return ok({ place: folder, closeConnections: noConnections, tearDown: async () => undefined })
  return withRelay(equipment, plan, folder, secrets)
}

async function forTierB(
  { folder: root, tierBLauncher, privateHosts }: Equipment,
  { plan, cwd }: AdmittedPlan,
): Promise<Result<CallSetup, NotRun>> {
  if (tierBLauncher === undefined)
    return err(
      refused(
        'sandbox_unavailable',
        'this worker lacks something that tier B needs; run `countersign-worker doctor`',
      ),
    )
  const unreachable = await preflight(plan, privateHosts)
  if (unreachable !== undefined) return err(refused('egress_denied', unreachable))
  let folder: string
  try {
    folder = await callFolder(root, cwd)
  } catch (error) {
    return err(infra(`the call’s folder could not be created (${errorReport(error).code})`)) // the error's message would reveal `cwd`
  }
  return ok({
    place: { folder, mark: newMark(), fence: tierBLauncher },
    closeConnections: noConnections,
    tearDown: async () => {
      await removeFolder(folder)
    },
  })
}

/**
 * Egress `preflight`: each named host must resolve to the public internet now. Nothing enforces
 * this on the running process.
 */
async function preflight({ egress }: Plan, privateHosts: ReadonlySet<string>): Promise<string | undefined> {
  if (egress.mode !== 'preflight') return undefined
  const names = new NameResolver()
  const literal = egress.hosts.filter((pattern) => !pattern.startsWith('.'))
  const checks = literal.map(async (pattern) => {
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
  return { authority: new CallAuthority(), trust: trustedCertificates(authorities) }
}

async function withRelay(
  { relays, privateHosts, authorities }: Equipment,
  plan: Plan,
  place: CallResources,
  secrets: SetupInputs['secrets'],
): Promise<Result<CallSetup, NotRun>> {
  if (relays === undefined)
    return err(
      refused(
        'sandbox_unavailable',
        'this worker lacks something that egress needs; run `countersign-worker doctor`',
      ),
    )
  let relay: Awaited<ReturnType<typeof relays.take>>
  try {
    relay = await relays.take()
  } catch (error) {
    return err(infra(`the relay could not be prepared: ${error instanceof Error ? error.message : error}`))
  }
  setImmediate(() => relays.stock()) // prepare the next one while the tool runs
  const token = randomBytes(16).toString('hex')
  const {
    egress: { hosts },
    limits,
  } = plan
  const egress = new Egress({ hosts, additions: additionsOf(plan, secrets), privateHosts, token, limits })
  const interception = interceptionFor(plan, authorities)
  const caBundle =
    interception === undefined
      ? authorities
      : await relay.keep('authorities.pem', `${interception.trust}\n${interception.authority.pem}`)
  const closeConnections = serveProxy(relay.server, egress, interception)
  return ok({
    place: { ...place, relay: { pid: relay.pid, proxyUrl: proxyUrl(token), authorities: caBundle } },
    closeConnections: () => {
      closeConnections()
      return egress.connections
    },
    tearDown: () => relay.close(),
  })
}
