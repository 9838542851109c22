// The exports of the component. The tools are in tools.ts; nothing needs to be changed here.

import { entered, left } from './skill'
import { run as runTool } from './tools'

export { cabi_realloc } from './skill'

export function run(tool: usize, toolLength: i32, input: usize, inputLength: i32): usize {
  return left(runTool(entered(tool, toolLength), entered(input, inputLength)))
}
