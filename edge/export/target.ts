// The export target of a tenant: the bucket that receives its exports. The secret of its access key
// is sealed like any secret, under a name that no secret of an operator can have.

import { failure } from '../../shared/failures.ts'
import { err, type Result } from '../../shared/result.ts'
import type { ExportTarget, ExportTargetSpec } from '../../shared/wire/exports.ts'
import { type Env, identityOf, outboundNetwork, tenantObject } from '../bindings.ts'
import { type SealedSecret, Sealing } from '../secrets/sealing.ts'
import { type Network, putObject } from './bucket.ts'

/** As the TenantObject stores it. */
export type SealedTarget = { readonly shown: ExportTarget; readonly sealed: string }

/** Names of secrets have no spaces. */
const BOUND = 'export target'

export const NO_TARGET = failure('no_export_target', 'the tenant has no export target')

export function sealTarget(
  env: Env,
  tenant: string,
  { secret_access_key, ...bucket }: ExportTargetSpec,
  by: string,
): SealedTarget {
  const at = Date.now()
  return {
    shown: { ...bucket, put_by: by, put_at_ms: at },
    sealed: new Sealing(identityOf(env).vaultKeys, tenant).seal(BOUND, at, secret_access_key),
  }
}

/** The sealed secret of the target's access key, under the name that it was sealed for. */
export const sealedKeyOf = ({ shown, sealed }: SealedTarget): SealedSecret => ({
  name: BOUND,
  version: shown.put_at_ms,
  sealed,
})

const PROBE = 'countersign.json'

/** Stores a small object, always the same one, to find wrong settings before they are kept. */
export const probe = (network: Network, tenant: string, spec: ExportTargetSpec): Promise<Result<true>> => {
  const bytes = Buffer.from(`${JSON.stringify({ format: 'countersign-export-target/v1', tenant })}\n`)
  return putObject(network, spec, { name: `${tenant}/${PROBE}`, bytes })
}

/** Stores a file in the tenant's export target. */
export async function storeInTarget(
  env: Env,
  tenant: string,
  name: string,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<Result<true>> {
  const target = await tenantObject(env, tenant).exportTarget()
  if (target === null) return err(NO_TARGET)
  const { put_by: _, put_at_ms: __, ...bucket } = target.shown
  const sealing = new Sealing(identityOf(env).vaultKeys, tenant)
  const secret_access_key = sealing.open(sealedKeyOf(target))
  if (secret_access_key === undefined)
    return err(
      failure(
        'export_refused',
        'the secret of the access key can’t be decrypted; set the export target again',
      ),
    )
  return putObject(
    outboundNetwork(env),
    { ...bucket, secret_access_key },
    { name: `${tenant}/${name}`, bytes },
  )
}
