// Prepares an opened package for storage: checks its schemas, has its component transpiled and
// metered, and audits the manifest against the component. Stores nothing; publishers were checked
// before.

import { sha256 } from '../../../shared/bytes/json.ts'
import { kidOf } from '../../../shared/evidence/dsse.ts'
import { failure } from '../../../shared/failures.ts'
import { DEFAULT_SKILL_LIMITS } from '../../../shared/limits.ts'
import type { Result } from '../../../shared/result.ts'
import { err, ok } from '../../../shared/result.ts'
import type { Skill, UnboundManifest } from '../../../shared/wire/skills.ts'
import type { Env } from '../../bindings.ts'
import { transpiler } from '../../bindings.ts'
import { checkSchema } from '../../tools/schema-rules.ts'
import type { CodeFile } from '../execution/isolate.ts'
import type { Transpiled } from '../transpiler/main.ts'
import { audit } from './audit.ts'
import type { OpenedPackage } from './package.ts'

type PreparedSkill = {
  readonly about: Omit<
    Skill,
    'state' | 'changes' | 'denied' | 'published_by' | 'published_at_ms' | 'pinned_by'
  >
  /** The signed bytes. */
  readonly payload: Uint8Array
  readonly files: readonly CodeFile[]
}

export async function prepareSkill(
  env: Env,
  { manifest, component, contents, payload, digest, key, sig }: OpenedPackage,
): Promise<Result<PreparedSkill>> {
  const transpiled = await transpile(env, manifest, component)
  if (!transpiled.ok) return transpiled
  const { files, capabilities: imports } = transpiled.value
  const warnings = audit({ manifest, imports, contents })
  if (!warnings.ok) return warnings
  const about = {
    id: manifest.id,
    version: manifest.version,
    digest,
    manifest,
    component: { sha256: sha256(component), bytes: component.byteLength },
    imports: [...imports],
    modules: files.map(([name, bytes]) => ({ name, sha256: sha256(bytes), bytes: bytes.byteLength })),
    contents,
    warnings: warnings.value,
    signed_by: kidOf(key),
    signature: sig,
  }
  return ok({ about, payload, files })
}

/** The files that an isolate runs, and the interfaces that the component imports. */
export async function transpile(
  env: Env,
  { tools, limits }: UnboundManifest,
  component: Uint8Array,
): Promise<Result<Transpiled>> {
  for (const { input_schema, output_schema } of tools) {
    for (const schema of [input_schema, output_schema]) {
      const checked = schema === undefined ? ok(schema) : checkSchema(schema)
      if (!checked.ok) return checked
    }
  }
  const {
    memory_bytes = DEFAULT_SKILL_LIMITS.memory_bytes,
    table_elements = DEFAULT_SKILL_LIMITS.table_elements,
  } = limits
  const moduleLimits = { pages: Math.floor(memory_bytes / 65_536), elements: table_elements }
  return transpiler(env)
    .transpile(component, moduleLimits)
    .catch(() => err(failure('unavailable', 'the transpiler could not be reached')))
}
