// Promise: the package that is published works as it is: installed into an empty folder under Node,
// in Bun, Deno, workerd and a browser. Its examples run as they are written.

import { execFile } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { buildClient } from '../../infra/clients/package.ts'
import { ROOT } from '../../infra/state.ts'
import { browserForTests } from '../support/browser/browser.ts'
import { Fixtures } from '../support/fixtures.ts'
import { serveModule } from '../support/served-module.ts'
import { sharedStack } from '../support/stack/stack.ts'

const run = promisify(execFile)
const dev = sharedStack()
const fixtures = new Fixtures('clientpack', dev)
const folder = mkdtempSync(join(tmpdir(), 'countersign-package-'))
const source = join(folder, 'package')
const installed = join(folder, 'installed')
/** The folder with the packages of frameworks; the published package names none of them. */
const AGENTS = join(ROOT, 'test/agents')
let key: string
let sizes: Readonly<Record<string, number>>
let files: string[]

/**
 * Proposes a call, reads its output and verifies its attestation; answers with what a reader
 * compares.
 */
const CONSUMER = `
import { Countersign, ProblemError } from '@countersign/agent'
export async function consume(url, key) {
  const agent = new Countersign({ url, key })
  const call = await agent.call('text_stats', { text: 'who signs, answers' })
  const keys = await agent.keys()
  const verdict = await agent.verify(call, keys)
  const stranger = { ...keys, keys: keys.keys.map((one) => ({ ...one, x: keys.keys[0].x === one.x ? 'iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w' : one.x })) }
  const other = await agent.verify(call, stranger)
  const refused = await agent.call('text_stats', {}).catch((error) => error)
  return [call.state, call.result.output.trim(), verdict.ok, other.ok, refused instanceof ProblemError, refused.code]
}
`
const CONSUMED = ['succeeded', expect.stringMatching(/^0 +3 +18$/), true, false, true, 'invalid_arguments']

beforeAll(async () => {
  ;({ key } = await fixtures.agent({ pool: 'default', tools: ['text_stats'] }))
  mkdirSync(source)
  mkdirSync(installed)
  for (const name of ['package.json', 'README.md'])
    cpSync(join(ROOT, 'clients/typescript', name), join(source, name))
  sizes = await buildClient(join(source, 'dist'))
  const npm = { env: { ...process.env, npm_config_offline: 'true', npm_config_loglevel: 'error' } }
  const packed = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: source, ...npm })
  const [{ filename = '', files: listed = [] } = {}] = JSON.parse(packed.stdout) as {
    filename: string
    files: { path: string }[]
  }[] // npm's own form
  files = listed.map(({ path }) => path)
  writeFileSync(join(installed, 'package.json'), '{ "type": "module", "private": true }\n')
  await run('npm', ['install', '--no-audit', '--no-fund', join(folder, filename)], { cwd: installed, ...npm })
  writeFileSync(join(installed, 'consumer.js'), CONSUMER)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const node = (script: string, env: Record<string, string> = {}) =>
  run(process.execPath, ['--input-type=module', '-e', script], {
    cwd: installed,
    env: { ...env, PATH: '/usr/bin:/bin' },
  })

describe('the packed package', () => {
  test('the package contains only modules, declarations and licences, and has no dependencies', () => {
    expect(files.filter((path) => !/^dist\/.*\.(?:js|d\.ts)$/.test(path)).toSorted()).toEqual([
      'README.md',
      'dist/THIRD-PARTY.txt',
      'package.json',
    ])
    expect(readdirSync(join(installed, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual([
      '@countersign',
    ])
    expect(readdirSync(join(installed, 'node_modules/@countersign'))).toEqual(['agent'])
    const licences = readFileSync(join(source, 'dist/THIRD-PARTY.txt'), 'utf8')
    expect([...licences.matchAll(/^(\S+) \d+\.\d+\.\d+$/gm)].map(([, name]) => name)).toEqual([
      '@noble/curves',
      '@noble/hashes',
      'zod',
    ])
  })

  test('a program loads at most 20 KB of the package until it first calls `verify`', () => {
    const all = Object.entries(sizes)
    const shared = all.filter(([path]) => path !== 'verify.js' && !path.startsWith('guard/'))
    expect(shared.reduce((sum, [, bytes]) => sum + bytes, 0)).toBeLessThan(20_000)
    expect(sizes['verify.js']).toBeLessThan(430_000)
  })

  test('the package uses no module and no global of Node', () => {
    for (const path of Object.keys(sizes)) {
      const text = readFileSync(join(source, 'dist', path), 'utf8')
      expect(
        text.match(/["'](?:node:[\w/]+|crypto|buffer|fs)["']|\brequire\(|\bprocess\.(?!jsonSchema)\w+/g) ??
          [],
        path,
      ).toEqual([])
    }
  })

  test('the package works in Node: it calls, verifies and throws its own errors', async () => {
    const { stdout } = await node(
      `import { consume } from './consumer.js'; console.log(JSON.stringify(await consume(process.env.URL, process.env.KEY)))`,
      { URL: dev.url, KEY: key },
    )
    expect(JSON.parse(stdout)).toEqual(CONSUMED)
  })

  test('the package’s entries for frameworks load without any framework', async () => {
    const names = ['ai-sdk', 'openai-agents', 'langgraph', 'mastra']
    const { stdout } = await node(
      `for (const name of ${JSON.stringify(names)}) console.log(name, Object.keys(await import('@countersign/agent/' + name)).join())`,
    )
    expect(stdout.trim().split('\n')).toEqual(names.map((name) => `${name} guard`))
  })

  test('the package’s declarations compile in a program without Node’s types', async () => {
    writeFileSync(
      join(installed, 'program.ts'),
      `import { Countersign, ProblemError, type Call, type Verdict } from '@countersign/agent'
import { verify } from '@countersign/agent/verify'
import { guard } from '@countersign/agent/ai-sdk'
const agent = new Countersign({ url: 'https://edge.example', key: () => 'k' })
const call: Call = await agent.call('text_stats', { text: 'a' })
const verdict: Verdict = verify('{}', await agent.keys(), { call: call.id })
const executor: string | undefined = verdict.statement?.predicate.execution.executor
for await (const event of agent.stream(call)) if (event.event === 'stdout') event.data.data.slice(0)
export const used = [executor, await guard(agent, { conversation: 'c' }), ProblemError]
// @ts-expect-error a state that does not exist
export const never = call.state === 'finished'
`,
    )
    const flags = [
      '--noEmit',
      '--strict',
      '--module',
      'nodenext',
      '--target',
      'es2023',
      '--lib',
      'es2023,dom',
      '--types',
      '',
    ]
    const tsc = await run(join(ROOT, 'node_modules/.bin/tsc'), [...flags, 'program.ts'], {
      cwd: installed,
    }).catch((error: { stdout: string }) => error)
    expect(tsc.stdout).toBe('')
  })
})

describe('without Node', () => {
  const runtimes = [
    ['Bun', '@oven/bun-linux-x64-baseline/bin/bun', ['run']],
    [
      'Deno',
      '@deno/linux-x64-glibc/deno',
      ['run', '--no-prompt', '--allow-net=127.0.0.1', '--node-modules-dir=manual'],
    ],
  ] as const
  test.each(runtimes)(
    'the package works in %s, which npm installs on x86_64',
    async (_name, program, argv) => {
      writeFileSync(
        join(installed, 'main.js'),
        `import { consume } from './consumer.js'; console.log(JSON.stringify(await consume(${JSON.stringify(dev.url)}, ${JSON.stringify(key)})))`,
      )
      const { stdout } = await run(join(AGENTS, 'node_modules', program), [...argv, 'main.js'], {
        cwd: installed,
        env: { PATH: '/usr/bin:/bin', HOME: folder, DENO_DIR: join(folder, 'deno'), NO_COLOR: '1' },
      })
      expect(JSON.parse(stdout)).toEqual(CONSUMED)
    },
  )

  /** The consumer and the package in one module, as a bundler for workerd or a browser makes it. */
  const bundled = async (entry: string, format: 'esm' | 'iife'): Promise<string> => {
    writeFileSync(join(installed, 'entry.js'), entry)
    const { outputFiles } = await build({
      absWorkingDir: installed,
      entryPoints: ['entry.js'],
      bundle: true,
      write: false,
      format,
      platform: 'neutral',
      conditions: ['workerd', 'browser'],
      logLevel: 'silent',
    })
    return outputFiles[0]?.text ?? ''
  }

  test('the package works in workerd without the compatibility flag for Node', async () => {
    const module = await bundled(
      `import { consume } from './consumer.js'
export default { fetch: async (request) => {
  const { searchParams } = new URL(request.url)
  const url = searchParams.get('url')
  if (url === null) return new Response('ready')
  return Response.json(await consume(url, request.headers.get('key')))
} }`,
      'esm',
    )
    writeFileSync(join(folder, 'main.js'), module)
    const workerd = await serveModule(folder)
    try {
      const answer = await fetch(`${workerd.url}?url=${encodeURIComponent(dev.url)}`, { headers: { key } })
      expect([answer.status, await answer.json()]).toEqual([200, CONSUMED])
    } finally {
      await workerd.stop()
    }
  })

  test('the package works in Chromium on a page of the edge’s own origin', async () => {
    const browser = await browserForTests()
    const page = await browser.newPage()
    await page.goto(`${dev.url}/healthz`)
    await page.evaluate(
      await bundled(`import { consume } from './consumer.js'; globalThis.consume = consume`, 'iife'),
    )
    const consumed = await page.evaluate(`consume(location.origin, ${JSON.stringify(key)})`)
    expect(consumed).toEqual(CONSUMED)
  })
})

describe('the examples', () => {
  /** The first program in the part of docs/agents.md with this heading. */
  const shown = (heading: string): string => {
    const page = readFileSync(join(ROOT, 'docs/agents.md'), 'utf8')
    const [, text] = /^```\w+\n([\s\S]*?)^```$/m.exec(page.slice(page.indexOf(`\n## ${heading}\n`))) ?? []
    if (text === undefined) throw new Error(`docs/agents.md shows no program under ${heading}`)
    return text
  }

  test.each([
    ['The client for TypeScript', 'typescript/examples/first-agent.ts'],
    ['The client for Python', 'python/examples/first_agent.py'],
  ])('%s: the program of the page has at most 25 lines, and is %s', (heading, path) => {
    const text = shown(heading)
    expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(25)
    expect(readFileSync(join(ROOT, 'clients', path), 'utf8')).toBe(text)
  })

  test('the TypeScript agent of docs/agents.md runs with the scripted model of the AI SDK', async () => {
    symlinkSync(join(AGENTS, 'node_modules/ai'), join(installed, 'node_modules/ai'))
    writeFileSync(join(installed, 'agent.ts'), shown('The client for TypeScript'))
    // The SDK looks a model's name up in this provider if one is set.
    writeFileSync(
      join(installed, 'model.mjs'),
      `import { MockLanguageModelV4, MockProviderV4 } from 'ai/test'
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } }
const scripted = new MockLanguageModelV4({ doGenerate: async ({ prompt }) => {
  const result = prompt.at(-1).role === 'tool' ? prompt.at(-1).content[0].output.value : undefined
  return result === undefined
    ? { content: [{ type: 'tool-call', toolCallId: 'call_1', toolName: 'text_stats', input: '{"text":"who signs, answers"}' }], finishReason: { unified: 'tool-calls' }, usage, warnings: [] }
    : { content: [{ type: 'text', text: 'There are ' + result.trim().split(/ +/)[1] + ' words.' }], finishReason: { unified: 'stop' }, usage, warnings: [] }
} })
globalThis.AI_SDK_DEFAULT_PROVIDER = new MockProviderV4({ languageModels: { scripted } })
`,
    )
    const { stdout } = await run(process.execPath, ['--import', './model.mjs', 'agent.ts'], {
      cwd: installed,
      env: { PATH: '/usr/bin:/bin', COUNTERSIGN_URL: dev.url, COUNTERSIGN_KEY: key, MODEL: 'scripted' },
    })
    expect(stdout).toBe('There are 3 words.\n')
  })

  test('the Python agent of docs/agents.md runs with a scripted model behind the chat completions protocol', async () => {
    type Message = { role: string; content: string; tool_call_id?: string }
    const wanted = {
      id: 'call_1',
      type: 'function',
      function: { name: 'text_stats', arguments: '{"text":"who signs, answers"}' },
    }
    const model = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString('utf8')
      })
      request.on('end', () => {
        const last = (JSON.parse(body) as { messages: Message[] }).messages.at(-1) // the example's own request
        const message =
          last?.role === 'tool'
            ? { role: 'assistant', content: `There are ${last.content.trim().split(/ +/)[1]} words.` }
            : { role: 'assistant', content: null, tool_calls: [wanted] }
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ choices: [{ message }] }))
      })
    })
    await new Promise<void>((done) => model.listen(0, '127.0.0.1', done))
    try {
      const { stdout } = await run('python3', ['-c', shown('The client for Python')], {
        env: {
          PATH: '/usr/bin:/bin',
          PYTHONPATH: join(ROOT, 'clients/python/src'),
          PYTHONDONTWRITEBYTECODE: '1',
          COUNTERSIGN_URL: dev.url,
          COUNTERSIGN_KEY: key,
          MODEL: 'scripted',
          MODEL_KEY: 'none',
          MODEL_URL: `http://127.0.0.1:${(model.address() as AddressInfo).port}`, // it listens on TCP
        },
      })
      expect(stdout).toBe('There are 3 words.\n')
    } finally {
      model.close()
    }
  })

  test('the tests of frameworks have the types that their frameworks declare', async () => {
    const tsc = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', AGENTS, '--pretty', 'false'], {
      cwd: ROOT,
    }).catch((error: { stdout: string }) => error)
    expect(tsc.stdout).toBe('')
  })
})
