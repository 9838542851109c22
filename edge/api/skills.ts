// What operators may do with skills: a package is opened, transpiled and metered, and kept in quarantine until somebody enables it.

import { kidOf } from '../../shared/dsse.ts'
import { failure } from '../../shared/failures.ts'
import { sha256 } from '../../shared/json.ts'
import { DEFAULT_SKILL_LIMITS } from '../../shared/limits.ts'
import type { Result } from '../../shared/result.ts'
import { err, ok } from '../../shared/result.ts'
import { capabilitiesIn, type Skill, type SkillState } from '../../shared/skills.ts'
import type { Incoming, Verbs } from '../app.ts'
import { permitted } from '../decide.ts'
import type { Env } from '../env.ts'
import { tenantSkills, transpiler } from '../env.ts'
import type { Identified } from '../intake.ts'
import { checkSchema } from '../schemas.ts'
import type { Published } from '../skill-store.ts'
import { type Opened, open } from '../skills/package.ts'

type Names =
  | 'publishSkill'
  | 'listSkills'
  | 'readSkill'
  | 'enableSkill'
  | 'disableSkill'
  | 'revokeSkill'
  | 'rollBackSkill'
  | 'readSkillJournal'
  | 'putPublisher'
  | 'listPublishers'
  | 'revokePublisherKey'
  | 'deletePublisher'

type Caller = Pick<Identified, 'directory' | 'principal'>

const NO_SKILL = failure('not_found', 'no such version of a skill')

export const skillRoutes: Verbs<Names> = {
  async publishSkill({ env, caller, query: { pin = null }, body }) {
    const may = pin === null ? ok(true) : permitted(caller.directory, caller.principal, 'publisher.pin')
    if (!may.ok) return may
    const opened = open(body, caller.directory.publishers, pin)
    if (!opened.ok) return opened
    const { manifest, digest, key } = opened.value
    const signed = { x: key, pin: pin !== null }
    const known = await here(env, caller).known(manifest, digest, signed)
    if (!known.ok) return known
    if (known.value !== undefined) return ok(known.value)
    const made = await prepared(env, caller, opened.value)
    return made.ok ? here(env, caller).publish(made.value, signed) : made
  },

  async listSkills({ env, caller }) {
    const skills = await here(env, caller).list()
    return ok({ items: skills.map(({ manifest: _, modules: __, changes: ___, ...skill }) => skill) })
  },
  async readSkill({ env, caller, params: { id, version } }) {
    const skill = await here(env, caller).read(id, version)
    return skill === undefined ? err(NO_SKILL) : ok(skill)
  },

  async enableSkill({ env, caller, params, body }) {
    const skill = await here(env, caller).read(params.id, params.version)
    return skill === undefined ? err(NO_SKILL) : enable(env, caller, skill, body.reason)
  },
  async rollBackSkill({ env, caller, params, body }) {
    const skill = await here(env, caller).before(params.id)
    return skill.ok ? enable(env, caller, skill.value, body.reason) : skill
  },
  async disableSkill(incoming) {
    return moved(incoming, 'disabled')
  },
  async revokeSkill(incoming) {
    return moved(incoming, 'revoked')
  },
  async readSkillJournal({ env, caller, query }) {
    return ok({ items: await here(env, caller).journal(query.after) })
  },

  async putPublisher({ env, caller, params, body }) {
    return here(env, caller).putPublisher(params.name, body.keys, caller.principal.name)
  },
  async listPublishers({ env, caller }) {
    return ok({ items: await here(env, caller).publishers() })
  },
  async deletePublisher({ env, caller, params }) {
    return here(env, caller).removePublisher(params.name, caller.principal.name)
  },
  async revokePublisherKey({ env, caller, params: { name, kid }, body }) {
    return here(env, caller).revokeKey(name, kid, { by: caller.principal.name, reason: body.reason })
  },
}

const here = (env: Env, { directory }: Caller) => tenantSkills(env, directory.tenant)

const moved = ({ env, caller, params, body }: Incoming<'disableSkill'>, to: SkillState): Promise<Result<Skill>> =>
  here(env, caller).move(params.id, params.version, { to, by: caller.principal.name, reason: body.reason })

/** By somebody other than who published it, unless policy says otherwise; the first time and any other. */
async function enable(env: Env, caller: Caller, { id, version, published_by }: Skill, reason: string): Promise<Result<Skill>> {
  const { directory, principal } = caller
  const may = published_by === principal.name ? permitted(directory, principal, 'skill.enable_own') : ok(true)
  return may.ok ? here(env, caller).move(id, version, { to: 'enabled', by: principal.name, reason }) : may
}

async function prepared(env: Env, { principal }: Caller, { manifest, component, digest, key }: Opened): Promise<Result<Published>> {
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
    signed_by: kidOf(key),
    published_by: principal.name,
    published_at_ms: Date.now(),
  }
  return ok({ about, component, files })
}
