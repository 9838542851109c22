// Each tool of skill.toml is a function from its input to its output. What runs at the top runs once, when the skill is built; each call
// begins with what was there then. `countersign:skill/…` is the world: countersign-skill.d.ts says what is in it.

import { write } from 'countersign:skill/log'

function greet({ name }: { name: string }): { greeting: string } {
  if (name.trim() === '') throw new Error('there is nobody to greet')
  write('info', `greeting ${name}`)
  return { greeting: `Hello, ${name}!` }
}

const TOOLS: Record<string, (input: never) => unknown> = { greet }

/** Input is JSON that fits the tool's `input_schema`; so must be what it returns. What it throws is told to whoever called. */
export function run(tool: string, input: string): string {
  const does = TOOLS[tool]
  if (does === undefined) throw new Error(`there is no tool ${tool}`)
  return JSON.stringify(does(JSON.parse(input) as never))
}
