// Sources of approvals to test: a program that makes them, or links that were given.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Ask, Seen, Target } from './check.ts'
import { formOf, Visitor } from './visitor.ts'

const run = promisify(execFile)
const STATUSES: readonly string[] = [
  'pending',
  'approved',
  'denied',
  'expired',
  'cancelled',
  'ended',
] satisfies Seen['status'][]

const isSeen = (value: unknown): value is Seen =>
  typeof value === 'object' && value !== null && 'status' in value && STATUSES.includes(String(value.status))

/**
 * `PROGRAM … open [seconds]` prints `{"id", "link"}`, `PROGRAM … look ID` prints `{"status",
 * "answers"}`. It reads the product's own state, so a page with a wrong claim is detected.
 */
export function byProgram([program = '', ...args]: readonly string[]): Target {
  const asked = async (...verb: string[]): Promise<unknown> =>
    JSON.parse((await run(program, [...args, ...verb])).stdout)
  return {
    async open(seconds) {
      const made = (await asked('open', ...(seconds === undefined ? [] : [String(seconds)]))) as {
        id?: unknown
        link?: unknown
      } | null // its shape is checked next
      if (made === null) return undefined
      const { id, link } = made
      if (typeof id !== 'string' || typeof link !== 'string')
        throw new Error(`\`${program} open\` is to print {"id", "link"}`)
      return {
        link,
        async look() {
          const seen = await asked('look', id)
          if (!isSeen(seen))
            throw new Error(`\`${program} look\` is to print {"status"}, one of ${STATUSES.join(', ')}`)
          return seen
        },
      }
    },
  }
}

/**
 * Links only: the page shows whether an approval waits. The number of answers on record is unknown.
 */
export function byLinks(links: readonly string[]): Target {
  const left = links.map(
    (link): Ask => ({
      link,
      look: async () => ({
        status: formOf(await new Visitor().open(link)) === undefined ? 'ended' : 'pending',
      }),
    }),
  )
  return { open: async (seconds) => (seconds === undefined ? left.shift() : undefined) }
}
