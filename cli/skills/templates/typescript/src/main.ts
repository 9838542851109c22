// Each tool of skill.toml is a function from its input to its output. Top-level code runs once,
// when the skill is built, and each call starts with a copy of that state. countersign-skill.d.ts
// declares the modules `countersign:skill/…` of the host.

import { write } from 'countersign:skill/log'

function greet({ name }: { name: string }): { greeting: string } {
  if (name.trim() === '') throw new Error('there is nobody to greet')
  write('info', `greeting ${name}`)
  return { greeting: `Hello, ${name}!` }
}

const TOOLS: Record<string, (input: never) => unknown> = { greet }

/**
 * `input` is JSON that is valid for the tool's `input_schema`; the result must be valid for its
 * `output_schema`. The agent gets the message of an error that is thrown.
 */
export function run(tool: string, input: string): string {
  const does = TOOLS[tool]
  if (does === undefined) throw new Error(`there is no tool ${tool}`)
  return JSON.stringify(does(JSON.parse(input) as never))
}
