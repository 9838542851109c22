// Promise: the tests of the Python client pass against a real edge. Its adapter for Pydantic
// AI is tested with a STAND-IN for that framework, which could not be installed: see the title.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { ROOT } from '../../infra/state.ts'
import { Fixtures } from '../support/fixtures.ts'
import { sharedStack } from '../support/stack/stack.ts'
import { clientTools } from './tools.ts'

const fixtures = new Fixtures('clientpy', sharedStack())
const folder = join(ROOT, 'clients/python')
let env: NodeJS.ProcessEnv

beforeAll(async () => {
  const { key } = await fixtures.agent({ pool: 'default' })
  const { asking, slow } = await clientTools(fixtures)
  env = {
    PATH: '/usr/bin:/bin',
    PYTHONPATH: `${join(folder, 'src')}:${join(folder, 'tests')}`,
    PYTHONDONTWRITEBYTECODE: '1',
    COUNTERSIGN_URL: fixtures.url,
    COUNTERSIGN_KEY: key,
    COUNTERSIGN_OPERATOR_KEY: fixtures.rootKey,
    ASKING_TOOL: asking,
    SLOW_TOOL: slow,
  }
})

/** Runs one module of unit tests; returns how many passed. */
async function unittest(module: string): Promise<number> {
  const child = spawn('python3', ['-W', 'error::SyntaxWarning', '-m', 'unittest', '-v', module], {
    cwd: folder,
    env,
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString('utf8')
  })
  const [code] = (await once(child, 'close')) as [number | null] // as child_process says
  expect(code, said).toBe(0)
  return said.match(/ \.\.\. ok$/gm)?.length ?? 0
}

test('the Python client proposes, waits, follows, cancels, verifies and fails as its tests say', async () => {
  expect(await unittest('test_against_edge')).toBe(13)
})

test('the adapter for Pydantic AI defers pending calls; this is tested with a STAND-IN for the framework only', async () => {
  expect(await unittest('test_pydantic_ai_stand_in')).toBe(4)
})

test('the Python package imports nothing but the standard library and itself', async () => {
  const script = `
import ast, pathlib, sys
for path in sorted(pathlib.Path("src/countersign_agent").glob("*.py")):
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 10))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
            [node.module] if isinstance(node, ast.ImportFrom) and node.level == 0 else [])
        for name in names:
            if name.split(".")[0] not in sys.stdlib_module_names:
                print(path.name, name)
`
  const child = spawn('python3', ['-c', script], { cwd: folder, env })
  let out = ''
  child.stdout.on('data', (chunk: Buffer) => {
    out += chunk.toString('utf8')
  })
  await once(child, 'close')
  expect(out.trim().split('\n')).toEqual(['pydantic_ai.py pydantic_ai', 'pydantic_ai.py pydantic_ai'])
})
