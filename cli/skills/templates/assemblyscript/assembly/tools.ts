// Each tool of skill.toml is a function from its input to its output, both JSON. './skill' has the
// functions of the host, which world.wit documents.

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

/**
 * `input` is JSON that is valid for the tool's `input_schema`; the output must be valid for its
 * `output_schema`. The agent gets the message of `failed`.
 */
export function run(tool: string, input: string): Result {
  const parsed = Json.parse(input)
  if (parsed == null) return failed('the input is not JSON')
  if (tool == 'greet') return greet(parsed)
  return failed('there is no tool ' + tool)
}
