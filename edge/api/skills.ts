// What operators may do with skills: a package is opened, transpiled and metered, and kept in quarantine until somebody enables it.

import { failure } from '../../shared/failures.ts'
import { sha256 } from '../../shared/json.ts'
import { DEFAULT_SKILL_LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { capabilitiesIn, type Skill, type SkillState } from '../../shared/skills.ts'
import type { Incoming, Verbs } from '../app.ts'
import { permitted } from '../decide.ts'
import type { Env } from '../env.ts'
import { tenantObject, transpiler } from '../env.ts'
import type { Identified } from '../intake.ts'
import { checkSchema } from '../schemas.ts'
import { type Opened, open } from '../skills/package.ts'

type Names =
  | 'publishSkill'
  | 'listSkills'
  | 'readSkill'
  | 'enableSkill'
  | 'disableSkill'
  | 'revokeSkill'
  | 'putPublisher'
  | 'listPublishers'
  | 'deletePublisher'

const NO_SKILL = failure('not_found', 'no such version of a skill')

export const skillRoutes: Verbs<Names> = {
  async publishSkill({ env, caller, body }) {
    const opened = open(body, caller.directory.publishers)
    if (!opened.ok) return opened
    const { id, version, publisher } = opened.value.manifest
    const known = await here(env, caller).knownSkill(id, version, opened.value.digest, publisher)
    if (!known.ok) return known
    return known.value === undefined ? publish(env, caller, opened.value) : ok(known.value)
  },

  async listSkills({ env, caller }) {
    const skills = await here(env, caller).listSkills()
    return ok({ items: skills.map(({ manifest: _, modules: __, changes: ___, ...skill }) => skill) })
  },
  async readSkill({ env, caller, params: { id, version } }) {
    const skill = await here(env, caller).readSkill(id, version)
    return skill === undefined ? err(NO_SKILL) : ok(skill)
  },

  async enableSkill(incoming) {
    const { env, caller, params } = incoming
    const skill = await here(env, caller).readSkill(params.id, params.version)
    const own = skill?.published_by === caller.principal.name
    const may = own ? permitted(caller.directory, caller.principal, 'skill.enable_own') : ok(true)
    return may.ok ? moved(incoming, 'enabled') : may
  },
  async disableSkill(incoming) {
    return moved(incoming, 'disabled')
  },
  async revokeSkill(incoming) {
    return moved(incoming, 'revoked')
  },

  async putPublisher({ env, caller, params, body }) {
    return here(env, caller).putPublisher({ name: params.name, keys: body.keys })
  },
  async listPublishers({ caller }) {
    return ok({ items: [...caller.directory.publishers].map(([name, keys]) => ({ name, keys: [...keys] })) })
  },
  async deletePublisher({ env, caller, params }) {
    return here(env, caller).deletePublisher(params.name)
  },
}

const here = (env: Env, { directory }: Identified) => tenantObject(env, directory.tenant)

const moved = ({ env, caller, params, body }: Incoming<'disableSkill'>, to: SkillState): Promise<Result<Skill>> =>
  here(env, caller).moveSkill(params.id, params.version, { to, by: caller.principal.name, reason: body.reason })

async function publish(env: Env, caller: Identified, { manifest, component, digest, signedBy }: Opened): Promise<Result<Skill>> {
  for (const { input_schema, output_schema } of manifest.tools) {
    for (const schema of [input_schema, output_schema]) {
      const checked = schema === undefined ? ok(schema) : checkSchema(schema)
      if (!checked.ok) return checked
    }
  }
  const { memory_bytes = DEFAULT_SKILL_LIMITS.memory_bytes, table_elements = DEFAULT_SKILL_LIMITS.table_elements } = manifest.limits
  const room = { pages: Math.floor(memory_bytes / 65_536), elements: table_elements }
  const made = await transpiler(env)
    .transpile(component, room)
    .catch(() => err(failure('unavailable', 'the transpiler could not be reached')))
  if (!made.ok) return made
  const { files, capabilities: imports } = made.value
  const declared = capabilitiesIn(manifest)
  const undeclared = imports.find((name) => !declared.includes(name))
  if (undeclared !== undefined) return err(failure('invalid_skill', `it imports \`${undeclared}\`, which its manifest does not declare`))
  const about = {
    id: manifest.id,
    version: manifest.version,
    digest,
    manifest,
    component: { sha256: sha256(component), bytes: component.byteLength },
    imports: [...imports],
    modules: files.map(([name, bytes]) => ({ name, sha256: sha256(bytes), bytes: bytes.byteLength })),
    signed_by: signedBy,
    published_by: caller.principal.name,
    published_at_ms: Date.now(),
  }
  return here(env, caller).publishSkill({ about, component, files })
}
