// Each tool of skill.toml is a function from its input to its output, both JSON. `skill` is the world, as world.wit has it.

import { Json } from './json'
import { failed, log, Result, returned } from './skill'

function greet(input: Json): Result {
  const name = input.text('name')
  if (name.trim().length == 0) return failed('there is nobody to greet')
  log.write('info', 'greeting ' + name)
  const output = Json.object()
  output.set('greeting', Json.of('Hello, ' + name + '!'))
  return returned(output.toString())
}

/** Input is JSON that fits the tool's `input_schema`; so must be what it returns. What failed is told to whoever called. */
export function run(tool: string, input: string): Result {
  const parsed = Json.parse(input)
  if (parsed == null) return failed('the input is not JSON')
  if (tool == 'greet') return greet(parsed)
  return failed('there is no tool ' + tool)
}
