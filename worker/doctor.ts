// The `doctor` command: runs every check that serving depends on, each with a fix if it fails. A
// failed check does not keep the later ones from running.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Tier } from '../shared/plan/plan.ts'
import { SPOOL_BOUNDS, Spool } from './calls/spool.ts'
import { type Config, readConfig, refuseRoot } from './config.ts'
import { openEdgeLink, openUnsignedLink } from './link/client.ts'
import { followedFrom } from './link/edge-keys.ts'
import { type Identity, keyPath, type PinnedEdge, readIdentity } from './link/identity.ts'
import { prove, withEquipment } from './proof/proof.ts'
import { checkRedis } from './queue/doorbells.ts'
import { lowCounts, SYSCTL_FILE } from './sandbox/limits/host-counts.ts'
import { WarmStock } from './sandbox/warm-stock.ts'

type Finding = { readonly check: string; readonly ok: boolean; readonly found: string; readonly fix?: string }
type Report = (check: string, ok: boolean, found: string, fix: string) => void
/** Reports a weakness that does not keep the worker from serving. */
type Note = (check: string, found: string, fix: string) => void

const NODE_MAJOR = 22
const NODE_MINOR = 12
/**
 * The edge refuses signed requests at a skew of 60 s; far less already means that the host's clock
 * is wrong.
 */
const CLOCK_OFF_MAX_MS = 5_000

export async function doctor(path: string, json: boolean): Promise<boolean> {
  const findings: Finding[] = []
  const record = (finding: Finding): void => {
    findings.push(finding)
    process.stdout.write(`${json ? JSON.stringify({ msg: 'check', ...finding }) : textOf(finding)}\n`)
  }
  const report: Report = (check, ok, found, fix) =>
    record(ok || fix === '' ? { check, ok, found } : { check, ok, found, fix })
  const note: Note = (check, found, fix) => record({ check, ok: true, found, fix })

  checkNode(report)
  const root = refuseRoot()
  report('user', root.ok, `uid ${process.geteuid?.()}`, root.ok ? '' : root.error)
  const config = readConfig(path)
  report(
    'configuration',
    config.ok,
    config.ok ? `\`${path}\`` : config.error,
    'correct the configuration file; --help lists its fields',
  )
  const tiers = root.ok && config.ok ? await checkSandbox(config.value, report, note) : []
  if (!root.ok) report('tiers', false, 'not tried as root', 'run doctor as the user that runs the worker')
  if (config.ok) await checkServices(config.value, tiers, report)

  const failed = findings.filter((finding) => !finding.ok).length
  if (!json)
    process.stdout.write(
      failed === 0 ? 'all checks passed\n' : `${failed} of ${findings.length} checks failed\n`,
    )
  return failed === 0
}

const FOUND_MAX = 240
/** A check's output may span lines and hold control characters. */
const oneLine = (text: string): string => {
  const line = text.replace(/[\x00-\x20\x7f]+/g, ' ').trim()
  return line.length > FOUND_MAX ? `${line.slice(0, FOUND_MAX)}…` : line
}

const textOf = ({ check, ok, found, fix }: Finding): string => {
  const sign = fix === undefined ? 'ok  ' : 'note'
  const line = `${ok ? sign : 'FAIL'}  ${check.padEnd(40)} ${ok ? oneLine(found) : found}`
  return fix === undefined ? line : `${line}\n      → ${fix}`
}

function checkNode(report: Report): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const ok = major > NODE_MAJOR || (major === NODE_MAJOR && minor >= NODE_MINOR)
  report(
    'node',
    ok,
    process.versions.node,
    `use Node ${NODE_MAJOR}.${NODE_MINOR} or newer; node_modules/.bin/node is one`,
  )
}

async function checkServices(config: Config, tiers: readonly Tier[], report: Report): Promise<void> {
  const identity = readIdentity(config)
  report(
    'key',
    identity.ok,
    identity.ok ? `${identity.value.worker}, \`${keyPath(config.home)}\`` : identity.error,
    'enrol with `countersign-worker enrol`',
  )
  await checkEdge(config, identity.ok ? identity.value : undefined, tiers, report)
  const { answers, confined, keeps } = await checkRedis(config.redis_url)
  report(
    'Redis',
    answers.ok,
    answers.ok ? 'answers' : answers.error,
    'start Redis, or correct `redis_url`: host, port, user, password',
  )
  const acl = 'give the worker a Redis user that may touch `cs:*` only; infra/redis.ts holds the access list'
  report('Redis rights', confined.ok, confined.ok ? 'confined to our prefix' : confined.error, acl)
  const conf =
    'set it in redis.conf and restart Redis; otherwise Redis loses doorbells, and calls wait until the edge rings again'
  report('Redis policy', keeps.ok, keeps.ok ? 'evicts nothing, keeps an append-only file' : keeps.error, conf)
  checkSpool(config, report)
}

const pinnedText = ({ edge }: Identity, { edge: { kid } }: PinnedEdge): string =>
  kid === edge.kid ? `${kid}, as pinned` : `${kid}, which the pinned ${edge.kid} has introduced`

async function checkEdge(
  config: Config,
  identity: Identity | undefined,
  tiers: readonly Tier[],
  report: Report,
): Promise<void> {
  const open = openUnsignedLink(config.edge_url)
  const keys = await open.ask('keys', { query: { tenant: config.tenant } }).finally(open.close)
  report(
    'edge',
    keys.ok,
    keys.ok ? config.edge_url : `${config.edge_url}: ${keys.error.detail}`,
    'start the edge, or correct `edge_url` and `tenant`',
  )
  if (identity === undefined || !keys.ok) return
  const pinned = followedFrom(identity, keys.value)
  report(
    'edge key',
    pinned.ok,
    pinned.ok
      ? pinnedText(identity, pinned.value)
      : `its keys do not continue ${identity.edge.kid}: ${pinned.error}`,
    'correct `edge_url`; if this is a new installation, remove the key file and enrol again',
  )

  const link = openEdgeLink(config.edge_url, identity)
  const sentAt = link.clock.mark()
  const beat = await link.request('heartbeat', { body: { tiers: [...tiers], running: [] } })
  link.close()
  // The worker's process is running, which is fine
  const serving = !beat.ok && beat.error.code === 'worker_in_use'
  report(
    'worker',
    beat.ok || serving,
    beat.ok
      ? 'the edge knows it'
      : serving
        ? 'the edge knows it; its process is running'
        : `${beat.error.detail} (\`${beat.error.code}\`)`,
    'enrol again, or ask an operator whether it was revoked',
  )
  if (!beat.ok) return
  link.clock.learn(beat.value.now_ms, sentAt)
  const off = link.clock.offset_ms
  report(
    'clock',
    Math.abs(off) <= CLOCK_OFF_MAX_MS,
    `${off} ms from the edge’s`,
    'let NTP set the host’s clock',
  )
}

function checkSpool({ home }: Config, report: Report): void {
  const dir = join(home, 'spool')
  const { settlements, bytes, unreadable } = new Spool(dir).inspect()
  const ok = settlements < SPOOL_BOUNDS.settlements && bytes < SPOOL_BOUNDS.bytes && !unreadable
  const fix = unreadable
    ? `look at \`${dir}/unreadable\`, then remove it`
    : 'find out why the edge accepts no results; the log of `run` says why'
  report('spool', ok, `${settlements} results waiting, ${bytes} bytes`, fix)
}

async function checkSandbox(config: Config, report: Report, note: Note): Promise<readonly Tier[]> {
  const { tiers, findings, hasQuota } = await withEquipment(config, async (equipment) => {
    const stock = new WarmStock(equipment)
    try {
      const hasQuota = (await equipment.spawner?.hasQuota()) === true
      return { ...(await prove(equipment, config.tiers, stock)), hasQuota }
    } finally {
      await stock.close()
    }
  })
  for (const { check, ok, found } of findings) report(check, ok, found, '')
  report(
    'tiers',
    tiers.length > 0,
    tiers.length > 0 ? tiers.join(', ') : 'none is proven',
    'fix the failed checks above',
  )
  checkHostCounts(hasQuota, report, note)
  return tiers
}

/**
 * All calls run as one kernel user, so a single call can exhaust what the kernel counts per user.
 */
function checkHostCounts(hasQuota: boolean, report: Report, note: Note): void {
  if (hasQuota) report('inotify quota', true, 'each call of tier C has its own', '')
  else {
    const fix =
      'install `perl-base`; if AppArmor keeps perl from making user namespaces, load a profile like those in infra/apparmor'
    note(
      'inotify quota',
      'calls have no quota of their own: one call can use up the quota of the worker’s user',
      fix,
    )
  }
  const low = lowCounts(settingAt)
  if (low.length === 0) {
    report('host counts', true, 'each call reaches its own limits before those of the host', '')
    return
  }
  const values = low.map(({ sysctl, value }) => `${sysctl} ${value}`).join(', ')
  const settings = low.map(({ sysctl, enough }) => `\`${sysctl} = ${enough}\``).join(', ')
  note(
    'host counts',
    `one call can use up a limit that all calls share: ${values}`,
    `put ${settings} into ${SYSCTL_FILE}, then run \`sudo sysctl --system\``,
  )
}

function settingAt(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return '' // this kernel lacks the setting
  }
}
