// Owns `doctor`: everything that serving needs, tried one by one, each with what to do where it fails. It changes nothing but what trying
// changes, and stops at no failure: what can still be checked is checked.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Tier } from '../shared/plan/plan.ts'
import { SPOOL_BOUNDS, Spool } from './calls/spool.ts'
import { type Config, readConfig, refuseRoot } from './config.ts'
import { openLink, openUnsigned } from './link/client.ts'
import { type Identity, keyPath, pins, readIdentity } from './link/identity.ts'
import { prove, withEquipment } from './proof/proof.ts'
import { examineRedis } from './queue/doorbells.ts'
import { lowCounts, SYSCTL_FILE } from './sandbox/limits/host-counts.ts'
import { PreparedStock } from './sandbox/warm-stock.ts'

type Finding = { readonly check: string; readonly ok: boolean; readonly found: string; readonly fix?: string }
type Tell = (check: string, ok: boolean, found: string, fix: string) => void
/** A finding that an operator should improve, but that does not stop the worker from serving. */
type Advise = (check: string, found: string, fix: string) => void

const NODE_MAJOR = 22
const NODE_MINOR = 12
/** Signed requests older than this are refused; well before, something is wrong with the host's clock. */
const CLOCK_OFF_MAX_MS = 5_000

export async function doctor(path: string, json: boolean): Promise<boolean> {
  const findings: Finding[] = []
  const say = (finding: Finding): void => {
    findings.push(finding)
    process.stdout.write(`${json ? JSON.stringify({ msg: 'check', ...finding }) : forPeople(finding)}\n`)
  }
  const tell: Tell = (check, ok, found, fix) =>
    say(ok || fix === '' ? { check, ok, found } : { check, ok, found, fix })
  const advise: Advise = (check, found, fix) => say({ check, ok: true, found, fix })

  examineNode(tell)
  const root = refuseRoot()
  tell('user', root.ok, `uid ${process.geteuid?.()}`, root.ok ? '' : root.error)
  const config = readConfig(path)
  tell(
    'configuration',
    config.ok,
    config.ok ? `\`${path}\`` : config.error,
    'mend it; --help shows what it holds',
  )
  const tiers = root.ok && config.ok ? await examineSandbox(config.value, tell, advise) : []
  if (!root.ok) tell('tiers', false, 'not tried as root', 'run doctor as the user that runs the worker')
  if (config.ok) await examineAll(config.value, tiers, tell)

  const failed = findings.filter((finding) => !finding.ok).length
  if (!json)
    process.stdout.write(failed === 0 ? 'all is well\n' : `${failed} of ${findings.length} checks failed\n`)
  return failed === 0
}

const FOUND_MAX = 240
/** What a check saw may be lines of anything. */
const oneLine = (text: string): string => {
  const line = text.replace(/[\x00-\x20\x7f]+/g, ' ').trim()
  return line.length > FOUND_MAX ? `${line.slice(0, FOUND_MAX)}…` : line
}

const forPeople = ({ check, ok, found, fix }: Finding): string => {
  const sign = fix === undefined ? 'ok  ' : 'note'
  const told = `${ok ? sign : 'FAIL'}  ${check.padEnd(40)} ${ok ? oneLine(found) : found}`
  return fix === undefined ? told : `${told}\n      → ${fix}`
}

function examineNode(tell: Tell): void {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const ok = major > NODE_MAJOR || (major === NODE_MAJOR && minor >= NODE_MINOR)
  tell(
    'node',
    ok,
    process.versions.node,
    `use Node ${NODE_MAJOR}.${NODE_MINOR} or newer; node_modules/.bin/node is one`,
  )
}

async function examineAll(config: Config, tiers: readonly Tier[], tell: Tell): Promise<void> {
  const identity = readIdentity(config)
  tell(
    'key',
    identity.ok,
    identity.ok ? `${identity.value.worker}, \`${keyPath(config.home)}\`` : identity.error,
    'enrol with `countersign-worker enroll`',
  )
  await examineEdge(config, identity.ok ? identity.value : undefined, tiers, tell)
  const { answers, confined, keeps } = await examineRedis(config.redis_url)
  tell(
    'Redis',
    answers.ok,
    answers.ok ? 'answers' : answers.error,
    'start Redis, or mend `redis_url`: host, port, user, password',
  )
  const acl = 'give the worker a user that may touch `cs:*` only; infra/redis.ts holds the access list'
  tell('Redis rights', confined.ok, confined.ok ? 'confined to our prefix' : confined.error, acl)
  const conf =
    'set it in redis.conf and restart Redis: without, it forgets doorbells, and calls wait until the edge rings again'
  tell('Redis policy', keeps.ok, keeps.ok ? 'evicts nothing, keeps an append-only file' : keeps.error, conf)
  examineSpool(config, tell)
}

async function examineEdge(
  config: Config,
  identity: Identity | undefined,
  tiers: readonly Tier[],
  tell: Tell,
): Promise<void> {
  const open = openUnsigned(config.edge_url)
  const keys = await open.ask('keys', { query: { tenant: config.tenant } }).finally(open.close)
  tell(
    'edge',
    keys.ok,
    keys.ok ? config.edge_url : `${config.edge_url}: ${keys.error.detail}`,
    'start the edge, or mend `edge_url` and `tenant`',
  )
  if (identity === undefined || !keys.ok) return
  const pinned = pins(identity, keys.value)
  tell(
    'edge key',
    pinned,
    pinned ? `${identity.edge.kid}, as pinned` : `${identity.edge.kid} is not among its keys`,
    'if the key was changed on purpose, remove the key file and enrol anew',
  )

  const link = openLink(config.edge_url, identity)
  const asked = link.clock.mark()
  const beat = await link.ask('heartbeat', { body: { tiers: [...tiers], running: [] } })
  link.close()
  const serving = !beat.ok && beat.error.code === 'worker_in_use' // as it should be: it runs, and this is no second one
  tell(
    'worker',
    beat.ok || serving,
    beat.ok
      ? 'the edge knows it'
      : serving
        ? 'the edge knows it, and its process is running'
        : `${beat.error.detail} (\`${beat.error.code}\`)`,
    'enrol anew, or ask an operator whether it was revoked',
  )
  if (!beat.ok) return
  link.clock.learn(beat.value.now_ms, asked)
  const off = link.clock.offset_ms
  tell(
    'clock',
    Math.abs(off) <= CLOCK_OFF_MAX_MS,
    `${off} ms from the edge’s`,
    'have the host’s clock set by NTP',
  )
}

function examineSpool({ home }: Config, tell: Tell): void {
  const dir = join(home, 'spool')
  const { settlements, bytes, unreadable } = new Spool(dir).look()
  const ok = settlements < SPOOL_BOUNDS.settlements && bytes < SPOOL_BOUNDS.bytes && !unreadable
  const fix = unreadable
    ? `look at \`${dir}/unreadable\`, then remove it`
    : 'find out why the edge takes no results; `run` says so'
  tell('spool', ok, `${settlements} results wait, ${bytes} bytes`, fix)
}

async function examineSandbox(config: Config, tell: Tell, advise: Advise): Promise<readonly Tier[]> {
  const { tiers, findings, hasQuota } = await withEquipment(config, async (equipment) => {
    const stock = new PreparedStock(equipment)
    try {
      const hasQuota = (await equipment.spawner?.hasQuota()) === true
      return { ...(await prove(equipment, config.tiers, stock)), hasQuota }
    } finally {
      await stock.close()
    }
  })
  for (const { check, ok, found } of findings) tell(check, ok, found, '')
  tell(
    'tiers',
    tiers.length > 0,
    tiers.length > 0 ? tiers.join(', ') : 'none is proven',
    'mend what the checks above name',
  )
  examineCounts(hasQuota, tell, advise)
  return tiers
}

/** All calls are one user to the kernel, so one call can use up what the kernel counts by user. */
function examineCounts(hasQuota: boolean, tell: Tell, advise: Advise): void {
  if (hasQuota) tell('quota of inotify', true, 'each call of tier C has its own', '')
  else {
    const fix =
      'install `perl-base`; where AppArmor keeps perl from making user namespaces, a profile like those in infra/apparmor lets it'
    advise(
      'quota of inotify',
      'calls have no quota: one call can use up what the worker’s user may have',
      fix,
    )
  }
  const low = lowCounts(settingAt)
  if (low.length === 0) {
    tell('host counts', true, 'each call reaches its own limits first', '')
    return
  }
  const values = low.map(({ sysctl, value }) => `${sysctl} ${value}`).join(', ')
  const settings = low.map(({ sysctl, enough }) => `\`${sysctl} = ${enough}\``).join(', ')
  advise(
    'host counts',
    `one call can use up what all calls share: ${values}`,
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
