// The demo's AI agent and its third-party MCP server: two programs that know nothing of each other.
// Both are in test/agents, whose packages infra/bootstrap.mjs installs for the demo too.

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Child, pdeathsig } from '../child-process.ts'
import type { DevInfo } from '../seed.ts'
import { freePort, ROOT } from '../state.ts'
import {
  COMPILE_CACHE,
  check,
  countersign,
  type DemoStack,
  echo,
  explain,
  match,
  print,
  title,
} from './terminal.ts'

const AGENTS = join(ROOT, 'test/agents')
const ENV = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8', ...COMPILE_CACHE }

export async function agentAndServer(demo: DemoStack): Promise<void> {
  title('5  An AI agent calls a third-party MCP server: it has to wait for an approval, then gets its result')
  if (demo.own === undefined) {
    explain('left out: the running stack reaches public servers only, and the demo’s server runs on this')
    explain(
      'machine. Stop the stack and run the demo again to see this step; docs/upstreams.md has the commands',
    )
    return
  }
  const port = await freePort()
  const server = everythingServer(demo.folder, port)
  const started = await server.start()
  if (!started.ok) throw new Error(started.error)
  explain('the server is the reference server of the MCP project, and agents have no access to it')
  protect(demo, `http://127.0.0.1:${port}/mcp`)
  await callFromAgent(demo)
  await server.stop()
}

/** The package `@modelcontextprotocol/server-everything`, as its publisher starts it. */
function everythingServer(folder: string, port: number): Child {
  const program = join(AGENTS, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js')
  const onLoopback = ['--import', join(AGENTS, 'demo/listen-on-loopback.ts')]
  return new Child(
    {
      name: 'the MCP server',
      argv: pdeathsig([process.execPath, ...onLoopback, program, 'streamableHttp']),
      env: { ...ENV, PORT: String(port) },
      cwd: folder,
      log: join(folder, 'mcp-server.log'),
      ready: async (log) => log().includes(`listening on port ${port}`),
      readyWithin_ms: 20_000,
      stopWithin_ms: 1_000,
    },
    () => undefined,
  )
}

function protect(demo: DemoStack, url: string): void {
  const added = countersign(demo, 'upstreams', 'add', 'everything', url)
  check(added.code === 0 && /everything_get-sum +new/.test(added.out), 'a tool that nobody has accepted')
  explain('an operator reads the definition of a tool and accepts exactly that; a changed one is refused')
  const { out } = countersign(demo, 'upstreams', 'diff', 'everything', 'get-sum')
  const digest = match(out, /^definition ([0-9a-f]{64})$/m, 'the digest of a definition')
  const accepted = countersign(demo, 'upstreams', 'accept', 'everything', 'get-sum', digest.slice(0, 12))
  check(accepted.code === 0, 'an accepted tool')
}

async function callFromAgent(demo: DemoStack): Promise<void> {
  explain('the agent uses the AI SDK, with a scripted model in place of a real one')
  const agent = startAgent(demo)
  const waiting = await agent.printUntil(/^waits for an operator: /)
  const approval = match(waiting, /\/(apr_\w+)/, 'the id of an approval')
  const card = countersign(demo, 'approvals', 'show', approval)
  check(/"get-sum" of the MCP server `everything`/.test(card.out), 'an approval that names tool and server')
  check(countersign(demo, 'approvals', 'approve', approval).code === 0, 'an accepted answer')
  explain('the agent, which has been waiting, continues')
  const answer = await agent.printUntil(/^answer: /)
  check(/17 and 25 is 42/.test(answer) && (await agent.code) === 0, 'the result of the server')

  countersign(demo, 'attestation', approval.replace('apr_', 'call_'), '-o', 'sum.json')
  const verified = countersign(demo, 'verify', 'sum.json', '--keys', 'keys.json')
  check(
    verified.code === 0 && /upstream +everything, http/.test(verified.out),
    'an attestation that names the server',
  )
}

type Agent = {
  readonly printUntil: (line: RegExp) => Promise<string>
  readonly code: Promise<number | null>
}

/** Starts the agent with nothing but the edge's address and its own key. */
function startAgent({ state, folder }: DemoStack): Agent {
  const { url, agent_key } = JSON.parse(readFileSync(join(state, 'dev.json'), 'utf8')) as DevInfo // written by the stack
  echo('$ node test/agents/demo/agent.ts')
  const [file = '', ...args] = pdeathsig([process.execPath, join(AGENTS, 'demo/agent.ts')])
  const agent = spawn(file, args, {
    cwd: folder,
    env: { ...ENV, COUNTERSIGN_URL: url, COUNTERSIGN_KEY: agent_key },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface(agent.stdout)[Symbol.asyncIterator]()
  const printUntil = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const { value: line, done } = await lines.next()
      check(done !== true, 'an agent that continues')
      print(line)
      if (pattern.test(line)) return line
    }
  }
  const code = new Promise<number | null>((settle) => agent.once('close', settle))
  return { printUntil, code }
}
