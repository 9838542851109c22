// GET over HTTP, only to the hosts of skill.toml. Responses are cached with their ETag, and returned
// again if the host answers that they have not changed. Follows a few redirects; the edge checks each.

import { type Response, request } from 'countersign:skill/http'
import * as kv from 'countersign:skill/kv'
import { write } from 'countersign:skill/log'
import { keyOf } from './key.ts'

const HOST = 'https://api.github.com'
const HEADERS = 'accept: application/vnd.github+json\nuser-agent: countersign-skill'
const REDIRECTS_MAX = 3
const KEPT_BYTES_MAX = 200_000

type Kept = { readonly path: string; readonly etag: string; readonly json: unknown }

export function run(tool: string, input: string): string {
  if (tool !== 'get') throw new Error(`there is no tool ${tool}`)
  const { path } = JSON.parse(input) as { path: string }
  if (!path.startsWith('/') || path.startsWith('//')) throw new Error('a path must begin with exactly one /')
  return JSON.stringify(get(path))
}

function get(path: string): { status: number; json: unknown; unchanged?: true } {
  const kept = read(path)
  const answer = following(
    `${HOST}${path}`,
    kept === undefined ? HEADERS : `${HEADERS}\nif-none-match: ${kept.etag}`,
  )
  if (answer.status === 304 && kept !== undefined) return { status: 200, json: kept.json, unchanged: true }
  const json = jsonOf(answer)
  const etag = header(answer, 'etag')
  if (answer.status === 200 && etag !== undefined) keep({ path, etag, json })
  return { status: answer.status, json }
}

function following(url: string, headers: string): Response {
  let at = url
  for (let left = REDIRECTS_MAX; ; left--) {
    const answer = request('GET', at, headers)
    const to =
      answer.status >= 301 && answer.status <= 308 && answer.status !== 304
        ? header(answer, 'location')
        : undefined
    if (to === undefined) return answer
    if (left === 0) throw new Error(`${HOST} redirects too often`)
    at = to.startsWith('/') ? `${HOST}${to}` : to
  }
}

const header = ({ headers }: Response, name: string): string | undefined =>
  headers.find(([one]) => one.toLowerCase() === name)?.[1]

function jsonOf({ status, body }: Response): unknown {
  const text = new TextDecoder().decode(body)
  if (text === '') return null
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`the answer with status ${status} is not JSON`)
  }
}

function read(path: string): Kept | undefined {
  const bytes = kv.get(keyOf(path))
  const kept = bytes === undefined ? undefined : (JSON.parse(new TextDecoder().decode(bytes)) as Kept) // written below
  return kept?.path === path ? kept : undefined
}

/** Without room for it, the next call fetches it again. */
function keep(kept: Kept): void {
  const bytes = new TextEncoder().encode(JSON.stringify(kept))
  if (bytes.length > KEPT_BYTES_MAX) return
  try {
    kv.set(keyOf(kept.path), bytes)
  } catch (why) {
    write('warn', `not kept: ${why}`)
  }
}
