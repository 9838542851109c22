// `countersign keys rotate`, `distrust` and `forget`: change the signing key of the edge on this host.
// Nothing takes effect before the edge starts again, because it reads its keys when it starts.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  edgeKeys,
  edgeSigner,
  type KeyRing,
  type Rotation,
  rotated,
  vaultId,
  withoutFormerVaults,
} from '../../shared/evidence/key-ring.ts'
import { type KeyEntry, rootOf } from '../../shared/evidence/keys.ts'
import { LIMITS } from '../../shared/limits.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { Tenant } from '../../shared/wire/tenants.ts'
import type { Command, CommandOutput, CommandResult, Trouble } from '../shell/command.ts'
import { command, trouble, usage } from '../shell/command.ts'
import { rootSettings } from '../shell/config.ts'
import type { Api } from '../shell/edge-api.ts'
import { reason, replacePrivate } from '../shell/files.ts'
import { pastTime } from '../shell/json-input.ts'
import { columns, time } from '../shell/terminal-text.ts'
import { type Installation, openInstallation } from './installation.ts'
import { rootSigner } from './root-signer.ts'

const ENV_FILE = 'edge.env'
const ENV_LINE = /^EDGE_SIGNING_KEY='[^']*'$/m

const rotate = command({
  words: ['keys', 'rotate'],
  args: {},
  flags: {},
  does: 'Give the edge on this host a new signing key, which the present one introduces; restart the edge afterwards',
  key: 'offline',
  examples: ['COUNTERSIGN_STATE=/var/lib/countersign countersign keys rotate'],
  run: () => changeKeys(Date.now(), null),
})

const distrust = command({
  words: ['keys', 'distrust'],
  args: { KID: 'the id of an edge key, from `countersign keys list`' },
  flags: {
    from: {
      value: 'TIME',
      what: 'since when somebody else may have had the key, e.g. 2026-11-20T09:00:00Z: nothing that it signed later is trusted',
    },
  },
  does: 'Distrust a signing key of the edge from a time on, and give the edge a new one; restart the edge at once',
  key: 'offline',
  examples: ['countersign keys distrust ed25519:0123456789abcdef --from 2026-11-20T09:00:00Z'],
  run: async ({ args: { KID }, flags: { from } }) => {
    if (from === undefined)
      return err(usage('`--from` is missing: since when may somebody else have had the key?'))
    const since = pastTime('from', from)
    if (!since.ok) return since
    return changeKeys(Date.now(), { kid: KID, from_ms: since.value })
  },
})

const forget = command({
  words: ['keys', 'forget'],
  args: {},
  flags: {},
  does: 'Remove the earlier keys of secrets from this host, once every tenant’s secrets are sealed under the newest; secrets in older backups can’t be opened any more',
  key: 'installation',
  run: async ({ api }) => {
    const installation = openInstallation()
    if (!installation.ok) return installation
    const { ring } = installation.value
    const waiting = await tenantsWithout(api, vaultId(ring))
    if (!waiting.ok) return waiting
    if (waiting.value.length > 0)
      return err(
        trouble(
          'not_resealed',
          `the secrets of ${waiting.value.length} tenants, such as \`${waiting.value[0]}\`, are not sealed under the newest key yet`,
          'restart the edge, which then seals them again, and run the command again',
        ),
      )
    return store(installation.value, withoutFormerVaults(ring))
  },
})

/** The tenants whose secrets may be sealed under another key than this one. To ask one makes it seal them. */
async function tenantsWithout(api: Api, id: string): Promise<Result<string[], Trouble>> {
  const waiting: string[] = []
  let after: string | undefined
  do {
    const page: Result<{ items: Tenant[] }, Trouble> = await api('listTenants', {
      query: after === undefined ? {} : { after },
    })
    if (!page.ok) return page
    for (const { name: tenant, state } of page.value.items) {
      if (state === 'deleted') continue
      const read = await api('readTenant', { params: { tenant } })
      if (!read.ok) return read
      if (read.value.use !== null && read.value.use.vault_key !== id) waiting.push(tenant)
    }
    after = page.value.items.at(-1)?.name
  } while (after !== undefined)
  return ok(waiting)
}

async function changeKeys(now: number, distrusts: Rotation['distrusts']): CommandResult {
  const installation = openInstallation()
  if (!installation.ok) return installation
  const until_ms = now + LIMITS.key_overlap_s * 1_000
  const { ring } = installation.value
  const root = rootSigner(rootSettings(), rootOf(ring.chain))
  if (!root.ok) return root
  const next = await rotated(ring, { from_ms: now, until_ms, distrusts }, root.value)
  return next.ok
    ? store(installation.value, next.value)
    : err(trouble('not_rotated', `the edge’s key was not changed: ${next.error}`))
}

/** `secrets.json` first: if the second file is not written, `prepare-host` writes it. */
function store({ dir }: Installation, ring: KeyRing): Result<CommandOutput, Trouble> {
  const paths = { secrets: join(dir, 'secrets.json'), env: join(dir, ENV_FILE) }
  let advice = 'nothing has changed; correct this and run the command again'
  try {
    const secrets = JSON.parse(readFileSync(paths.secrets, 'utf8')) as object // openInstallation has read it
    replacePrivate(paths.secrets, `${JSON.stringify({ ...secrets, edge: ring }, null, 2)}\n`)
    // The command again would use up one more key.
    advice = `the new keys are in \`secrets.json\` already; correct this, then run \`npm run prepare-host\`, which writes \`${ENV_FILE}\`, and restart the edge`
    if (existsSync(paths.env)) {
      const text = readFileSync(paths.env, 'utf8')
      if (!ENV_LINE.test(text)) throw new Error(`\`${paths.env}\` has no EDGE_SIGNING_KEY`)
      replacePrivate(
        paths.env,
        text.replace(ENV_LINE, () => `EDGE_SIGNING_KEY='${JSON.stringify(ring)}'`),
      )
    }
  } catch (thrown) {
    return err(trouble('unwritable', `the keys could not be stored: ${reason(thrown)}`, advice))
  }
  const keys = edgeKeys(ring)
  return ok({
    ok: true,
    json: { kid: edgeSigner(ring).kid, keys },
    text: `${columns(keys.map(rowOf))}\nRestart the edge now: it reads its keys when it starts. Keep the new \`secrets.json\` with your backups.\n`,
  })
}

const rowOf = ({ kid, status, from_ms, distrusted_from_ms }: KeyEntry): string[] => [
  kid,
  status,
  distrusted_from_ms === undefined
    ? `since ${from_ms === 0 ? 'the beginning' : time(from_ms)}`
    : `from ${time(distrusted_from_ms)}`,
]

export const EDGE_KEYS: readonly Command[] = [rotate, distrust, forget]
