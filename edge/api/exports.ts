// Verbs of operators on exports of evidence and on the bucket that receives them.

import { failure } from '../../shared/failures.ts'
import { err, ok, type Result } from '../../shared/result.ts'
import type { EXPORTS } from '../../shared/routes/exports.ts'
import { type Env, outboundNetwork, runsObject, tenantObject } from '../bindings.ts'
import { NO_TARGET, probe, sealTarget, storeInTarget } from '../export/target.ts'
import type { Identified } from '../http/intake.ts'
import { fileResponse } from '../http/response-headers.ts'
import { runOf } from '../run/find-run.ts'
import type { ExportPart } from '../run/object/export.ts'
import type { Verbs } from './verb.ts'

export const exportRoutes: Verbs<keyof typeof EXPORTS> = {
  async putExportTarget({ env, caller: { directory, principal }, body }) {
    const works = await probe(outboundNetwork(env), directory.tenant, body)
    if (!works.ok) return works
    const target = sealTarget(env, directory.tenant, body, principal.name)
    await tenantObject(env, directory.tenant).putExportTarget(target)
    return ok(target.shown)
  },
  async readExportTarget({ env, caller: { directory } }) {
    const target = await tenantObject(env, directory.tenant).exportTarget()
    return target === null ? err(NO_TARGET) : ok(target.shown)
  },
  async deleteExportTarget({ env, caller: { directory, principal } }) {
    return tenantObject(env, directory.tenant).deleteExportTarget(principal.name)
  },
  async readExport({ env, caller, params, query }) {
    const part = await partOf(env, caller, params.run, query.from)
    return part.ok ? ok(fileResponse({ path: part.value.name, bytes: part.value.bytes })) : part
  },
  async storeExport({ env, caller, params, query }) {
    const part = await partOf(env, caller, params.run, query.from)
    if (!part.ok) return part
    const { bytes, ...about } = part.value
    const stored = await storeInTarget(env, caller.directory.tenant, about.name, bytes)
    return stored.ok ? ok({ ...about, bytes: bytes.byteLength }) : stored
  },
}

async function partOf(
  env: Env,
  { directory: { tenant } }: Identified,
  run: string,
  from: string,
): Promise<Result<ExportPart>> {
  const found = runOf(env, tenant, run)
  if (!found.ok) return found
  const part = await runsObject(env, tenant, run).exportPart(from)
  return part === null ? err(failure('not_found', 'no such run')) : ok(part)
}
