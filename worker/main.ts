#!/usr/bin/env node
// Owns the command line of `countersign-worker`: it reads it, runs one command, and tells how that went by exit code. No other decision
// is here. 0: done. 1: refused, with a sentence. 2: the command line can't be read.

import { parseArgs } from 'node:util'
import { err, ok, type Result } from '../shared/result.ts'
import { type Config, enrolmentToken, type Refusal, readConfig, refuseRoot } from './config.ts'
import { closeInheritedDescriptors } from './host/file-descriptors.ts'
import { openLog } from './host/log.ts'
import { machineOf } from './sandbox/kernel/syscalls.ts'
import { wrongPlatform } from './sandbox/plan/host-programs.ts'

const USAGE = `countersign-worker: runs the tool calls that a Countersign edge has granted, each in a sandbox, and signs what happened.

  countersign-worker enroll --config FILE   make this host a worker, once; the token is read from standard input
  countersign-worker run    --config FILE   serve until SIGTERM
  countersign-worker doctor --config FILE   check everything that serving needs, and say how to mend what fails

  --json   one JSON object a line, for machines
  --help   this text

FILE is JSON, belongs to the user that runs the worker, and has mode 0600:
  {
    "edge_url": "https://edge.example.com",
    "tenant": "default",
    "pool": "default",
    "redis_url": "rediss://worker:PASSWORD@redis.example.com:6379",
    "home": "/var/lib/countersign/worker",
    "concurrency": 4,            optional: calls at a time; twice the cores otherwise
    "tiers": ["B", "C"],         optional: the tiers that this worker takes, if it has proven them
    "limits": {"pids": 64},      optional: ceilings; a call gets the least of its plan's limits and these
    "runs_bytes": 8589934592,    optional: disk that the folders of runs may take together
    "free_bytes": 536870912,     optional: disk that they leave free
    "private_hosts": [],         optional: "host:port" that tools may reach although its address is private
    "ca_file": "/etc/…/ca.pem",  optional: authorities (PEM) that tools trust beside this host's, for a private CA
    "profiles": {"NAME": {"from": "c_offline", "ro_binds": ["/opt/…"]}},
                                 optional: sandboxes with folders of this host to read, for tools whose contract names one
    "drain_ms": 20000            optional: how long SIGTERM lets running calls go on; what kills us after a while (TimeoutStopSec
                                 of the systemd unit: 40 s) has to wait 10 s longer than that, or their ends are told by nobody
  }
COUNTERSIGN_WORKER_<NAME> in the environment wins over the file, e.g. COUNTERSIGN_WORKER_CONCURRENCY=8.
COUNTERSIGN_ENROL_TOKEN may hold the token in place of standard input. An operator makes one with \`countersign workers enrol\`.

The worker never runs as root. Start with: enroll, then doctor, then run.
`

type Request = { readonly path: string; readonly json: boolean }
type Command = (config: Config, request: Request) => Promise<Result<void, Refusal>>

/** Each is loaded when it is asked for: `run` does not stay in this process, and `--help` needs none of them. */
const COMMANDS: Readonly<Record<string, Command>> = {
  enroll: async (config, { json }) => {
    const { enrol, makeHome } = await import('./link/identity.ts')
    const { prove, withEquipment } = await import('./proof/proof.ts')
    const home = makeHome(config.home)
    if (!home.ok) return home
    const token = enrolmentToken() ?? (await readToken())
    if (token === '') return err('no token came on standard input; ask an operator for one and pipe it in')
    const { tiers } = await withEquipment(config, (equipment) => prove(equipment, config.tiers))
    const enrolled = await enrol(config, token, [...tiers])
    if (!enrolled.ok) return enrolled
    const { worker, tenant, pool, edge } = enrolled.value
    openLog(json).say('enrolled', { worker, tenant, pool, edge_key: edge.kid, tiers })
    return ok(undefined)
  },
  run: async ({ home }, { path, json }) => {
    const { serveInSecondLife } = await import('./re-exec.ts')
    await serveInSecondLife(home, ['--config', path, ...(json ? ['--json'] : [])])
    return err('this system can’t replace a process (execve); the worker needs Linux')
  },
}

const TOKEN_MAX_BYTES = 1_024

async function readToken(): Promise<string> {
  if (process.stdin.isTTY) process.stderr.write('Paste the enrolment token, then press Enter: ')
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n') || text.length > TOKEN_MAX_BYTES) break
  }
  return text.trim()
}

function readArguments(
  args: string[],
): Result<{ command: string; path: string; json: boolean } | 'help', Refusal> {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        config: { type: 'string' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const [command, ...more] = positionals
    if (values.help || command === 'help') return ok('help')
    if (command === undefined || more.length > 0) return err('name one command: enroll, run or doctor')
    if (values.config === undefined) return err('name the configuration: --config FILE')
    return ok({ command, path: values.config, json: values.json })
  } catch (error) {
    return err(error instanceof Error ? error.message : String(error)) // node's own parser tells faults by throwing
  }
}

async function main(): Promise<number> {
  const complain = (sentence: string): void => void process.stderr.write(`countersign-worker: ${sentence}\n`)
  const read = readArguments(process.argv.slice(2))
  if (!read.ok) {
    complain(`${read.error}; see --help`)
    return 2
  }
  if (read.value === 'help') {
    process.stdout.write(USAGE)
    return 0
  }
  const { command, path, json } = read.value
  const run = COMMANDS[command]
  if (run === undefined && command !== 'doctor') {
    complain(`there is no command \`${command}\`; see --help`)
    return 2
  }
  const elsewhere = wrongPlatform({ platform: process.platform, machine: machineOf(process.arch) })
  if (elsewhere !== undefined) {
    complain(`${elsewhere} (\`unsupported_platform\`)`)
    return 1
  }
  closeInheritedDescriptors() // S21: before anything of ours is open
  if (run === undefined) return (await (await import('./doctor.ts')).doctor(path, json)) ? 0 : 1
  const root = refuseRoot()
  const config = root.ok ? readConfig(path) : root
  const done = config.ok ? await run(config.value, { path, json }) : config
  if (done.ok) return 0
  complain(done.error)
  return 1
}

process.exit(await main())
