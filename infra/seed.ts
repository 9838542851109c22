// Owns the first start's contents: the seed tools, the agent `dev`, the worker's enrolment. Through the HTTP API with the root operator's
// key, like any operator would; nothing is written into a store directly. What was seeded once belongs to the operator and is not touched
// again.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { z } from 'zod'
import type { Keys } from '../shared/evidence/bundle.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { bearer, type Client, client, type Problem } from '../shared/routes/client.ts'
import { ProcessToolSpec } from '../shared/wire/tools.ts'
import { type Refusal, ROOT, type State, TENANT, writePrivate } from './state.ts'

/** What scripts read from `<state>/dev.json`; the file is there while the stack is ready, and only then. */
export type DevInfo = {
  readonly url: string
  readonly tenant: string
  readonly agent_key: string
  readonly operator_key: string
  readonly installation_key: string
  readonly worker_id: string
  readonly keys: z.infer<typeof Keys>
}

const AGENT = 'dev'
const TOOLS = join(ROOT, 'infra/tools')

type Seeded = { readonly agent_key: string }

export const operatorClient = (url: string, key: string): Client => client(url, bearer(key))

const said = (what: string, { status, code, detail }: Problem): Refusal =>
  `${what}: the edge answered ${status} ${code}: ${detail}`

/** The tools and the agent's key: made at the first start, read from the state folder at every later one. */
export async function seed(state: State, operator: Client): Promise<Result<Seeded, Refusal>> {
  if (existsSync(state.seeded)) return ok(JSON.parse(readFileSync(state.seeded, 'utf8')) as Seeded) // written below, 0600
  for (const file of readdirSync(TOOLS).filter((entry) => entry.endsWith('.json'))) {
    const name = basename(file, '.json')
    const body = ProcessToolSpec.parse(JSON.parse(readFileSync(join(TOOLS, file), 'utf8')))
    const put = await operator('putTool', { params: { name }, body })
    if (!put.ok) return err(said(`tool \`${name}\` was not registered`, put.error))
  }
  const agent = await operator('putAgent', { params: { name: AGENT }, body: { tools: ['*'] } })
  if (!agent.ok) return err(said(`agent \`${AGENT}\` was not made`, agent.error))
  // Made by an earlier start that died before it wrote the key down: then nobody has it, and a new one harms nobody.
  const keyed =
    agent.value.key === undefined ? await operator('rotateAgentKey', { params: { name: AGENT } }) : agent
  if (!keyed.ok) return err(said(`agent \`${AGENT}\` got no key`, keyed.error))
  if (keyed.value.key === undefined) return err(`agent \`${AGENT}\` got no key from the edge`)
  const seeded: Seeded = { agent_key: keyed.value.key }
  writePrivate(state.seeded, `${JSON.stringify(seeded)}\n`)
  return ok(seeded)
}

export async function enrolmentToken(operator: Client): Promise<Result<string, Refusal>> {
  const made = await operator('createEnrolment', { body: { pool: 'default' } })
  return made.ok ? ok(made.value.token) : err(said('no enrolment token', made.error))
}

export async function readKeys(operator: Client): Promise<Result<z.infer<typeof Keys>, Refusal>> {
  const keys = await operator('keys', { query: { tenant: TENANT } })
  return keys.ok ? ok(keys.value) : err(said('the public keys were not read', keys.error))
}
