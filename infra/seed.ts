// Owns the contents of a first start: the seed tools, the agent `dev` and the worker's enrolment.
// It uses the HTTP API with the root operator's key and writes into no store directly. The seeded
// objects then belong to the operator, and later starts don't change them.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import type { z } from 'zod'
import type { Keys } from '../shared/evidence/keys.ts'
import { err, ok, type Result } from '../shared/result.ts'
import { bearer, type Client, client, type Problem } from '../shared/routes/client.ts'
import { ProcessToolSpec } from '../shared/wire/tools.ts'
import { type Refusal, ROOT, type State, TENANT, writePrivate } from './state.ts'

/**
 * The contents of `<state>/dev.json`, for scripts; the file exists only while the stack is ready.
 */
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

type SeededKeys = { readonly agent_key: string }

export const operatorClient = (url: string, key: string): Client => client(url, bearer(key))

const edgeError = (what: string, { status, code, detail }: Problem): Refusal =>
  `${what}; the edge answered ${status} ${code}: ${detail}`

/**
 * Registers the tools and makes the agent at the first start; later starts read the agent's key
 * from the state folder.
 */
export async function seed(state: State, operator: Client): Promise<Result<SeededKeys, Refusal>> {
  if (existsSync(state.seeded)) return ok(JSON.parse(readFileSync(state.seeded, 'utf8')) as SeededKeys) // written below, 0600
  for (const file of readdirSync(TOOLS).filter((entry) => entry.endsWith('.json'))) {
    const name = basename(file, '.json')
    const body = ProcessToolSpec.parse(JSON.parse(readFileSync(join(TOOLS, file), 'utf8')))
    const put = await operator('putTool', { params: { name }, body })
    if (!put.ok) return err(edgeError(`the tool \`${name}\` could not be registered`, put.error))
  }
  const agent = await operator('putAgent', { params: { name: AGENT }, body: { tools: ['*'] } })
  if (!agent.ok) return err(edgeError(`the agent \`${AGENT}\` could not be created`, agent.error))
  // An earlier start may have died before it stored the key; nobody has that key, so rotating it is
  // safe.
  const keyed =
    agent.value.key === undefined ? await operator('rotateAgentKey', { params: { name: AGENT } }) : agent
  if (!keyed.ok) return err(edgeError(`the agent \`${AGENT}\` got no key`, keyed.error))
  if (keyed.value.key === undefined) return err(`the agent \`${AGENT}\` got no key from the edge`)
  const seeded: SeededKeys = { agent_key: keyed.value.key }
  writePrivate(state.seeded, `${JSON.stringify(seeded)}\n`)
  return ok(seeded)
}

export async function enrolmentToken(operator: Client): Promise<Result<string, Refusal>> {
  const made = await operator('createEnrolment', { body: { pool: 'default' } })
  return made.ok ? ok(made.value.token) : err(edgeError('the edge made no enrolment token', made.error))
}

export async function readKeys(operator: Client): Promise<Result<z.infer<typeof Keys>, Refusal>> {
  const keys = await operator('keys', { query: { tenant: TENANT } })
  return keys.ok ? ok(keys.value) : err(edgeError('the public keys could not be read', keys.error))
}
