// Tools that the tests of both clients call.

import type { Fixtures } from '../support/fixtures.ts'

export type ClientTools = { readonly asking: string; readonly slow: string; readonly filing: string }

/**
 * `asking` needs an approval and prints a line. `slow` prints three lines and then sleeps for
 * `seconds`. `filing` copies an input file to an output file.
 */
export async function clientTools(fixtures: Fixtures): Promise<ClientTools> {
  const asking = await fixtures.tool({ sensitive: true, executor: { argv: ['printf', 'done\\n'] } })
  const lines = 'for i in 1 2 3; do echo line $i; sleep 0.2; done'
  const slow = await fixtures.tool({
    executor: {
      argv: ['sh', '-c', `read seconds; ${lines}; sleep "$seconds"`],
      stdin: { arg: 'seconds' },
    },
    input_schema: { type: 'object', properties: { seconds: { type: 'string' } } },
  })
  const filing = await fixtures.tool({
    executor: { argv: ['sh', '-c', 'cp /input/in.txt /output/out.txt'] },
    input_files: true,
    output_files: true,
  })
  return { asking, slow, filing }
}
