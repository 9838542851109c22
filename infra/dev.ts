// `npm run dev`: runs the stack with the edge under `wrangler dev`, which rebuilds it when a source
// changes. Its state is in `<state>/dev`.

import { createReadStream, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { sayOnStderr } from './setup.ts'
import { follow, startFromTerminal, stopOnSignal } from './terminal.ts'

const stack = await startFromTerminal(sayOnStderr, { edge: 'wrangler', under: 'dev' })
const ending = new AbortController()
stopOnSignal(sayOnStderr, stack, ending)
console.log(
  `The edge runs under wrangler dev at ${stack.url}; it reloads when a source changes. Keys: ${stack.state.dev}. Ctrl-C stops everything.\n`,
)
await Promise.all([
  follow(stack, (line) => console.log(line), ending.signal),
  showLog(`${stack.state.log}/edge.log`, ending.signal),
])

/**
 * Prints new lines of wrangler's log, such as a failed rebuild, without those of the two requests
 * that `follow` polls.
 */
async function showLog(path: string, ended: AbortSignal): Promise<void> {
  const ours = /^.*GET \/v1\/(?:calls|approvals) 200.*\n/gm
  let shown = statSync(path).size
  while (!ended.aborted) {
    const { size } = statSync(path)
    if (size > shown) {
      let text = ''
      for await (const chunk of createReadStream(path, { start: shown, end: size - 1, encoding: 'utf8' }))
        text += chunk
      process.stdout.write(text.replace(ours, ''))
    }
    shown = size
    await sleep(300, undefined, { signal: ended }).catch(() => undefined)
  }
}
