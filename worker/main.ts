#!/usr/bin/env node
// The command line of `countersign-worker`: parses it, runs one command, and maps the result to an
// exit code: 0 is success, 1 a refusal (with a sentence on stderr), 2 an unreadable command line.

import { parseArgs } from 'node:util'
import { err, ok, type Result } from '../shared/result.ts'
import { type Config, enrolmentToken, type Refusal, readConfig, refuseRoot } from './config.ts'
import { closeInheritedDescriptors } from './host/file-descriptors.ts'
import { openLog } from './host/log.ts'
import { machineOf } from './sandbox/kernel/syscalls.ts'
import { wrongPlatform } from './sandbox/plan/host-programs.ts'

const USAGE = `countersign-worker: runs the tool calls that a Countersign edge has granted, each in a sandbox, and signs what happened.

  countersign-worker enrol --config FILE   make this host a worker, once; the token is read from standard input
  countersign-worker run    --config FILE   serve until SIGTERM
  countersign-worker rotate --config FILE   give this worker a new key; stop it first, and start it afterwards
  countersign-worker doctor --config FILE   check everything that serving needs, and say how to fix what fails

  --json   one JSON object per line, for machines
  --help   this text

FILE is JSON, belongs to the user that runs the worker, and has mode 0600:
  {
    "edge_url": "https://edge.example.com",
    "tenant": "default",
    "pool": "default",
    "redis_url": "rediss://worker:PASSWORD@redis.example.com:6379",
    "home": "/var/lib/countersign/worker",
    "concurrency": 4,            optional: calls at a time; default: twice the cores
    "tiers": ["B", "C"],         optional: the tiers that this worker runs, once proven
    "limits": {"pids": 64},      optional: ceilings; a call gets the lower of its plan's limit and this
    "runs_bytes": 8589934592,    optional: disk that all run folders together may use
    "free_bytes": 536870912,     optional: disk that they must leave free
    "private_hosts": [],         optional: "host:port" that tools may reach at a private address
    "ca_file": "/etc/…/ca.pem",  optional: a private CA (PEM) that tools trust besides this host's
    "profiles": {"NAME": {"from": "c_offline", "ro_binds": ["/opt/…"]}},
                                 optional: sandboxes that show folders of this host read-only,
                                 for tools whose contract names such a profile
    "drain_ms": 20000            optional: how long running calls may continue after SIGTERM; systemd's
                                 TimeoutStopSec (40 s in our unit) must be at least 10 s longer, or
                                 the results of calls that are still running are lost
  }
COUNTERSIGN_WORKER_<NAME> in the environment overrides the file, e.g. COUNTERSIGN_WORKER_CONCURRENCY=8.
COUNTERSIGN_ENROL_TOKEN may hold the token instead of standard input. An operator makes one with \`countersign workers enrol\`.

The worker never runs as root. Start with: enrol, then doctor, then run.
`

type Options = { readonly path: string; readonly json: boolean }
type Command = (config: Config, request: Options) => Promise<Result<void, Refusal>>

/** Imported on demand: `run` replaces this process, and `--help` needs none of these modules. */
const COMMANDS: Readonly<Record<string, Command>> = {
  enrol: async (config, { json }) => {
    const { enrol } = await import('./link/enrolment.ts')
    const { makeHome } = await import('./link/identity.ts')
    const { prove, withEquipment } = await import('./proof/proof.ts')
    const home = makeHome(config.home)
    if (!home.ok) return home
    const token = enrolmentToken() ?? (await readToken())
    if (token === '')
      return err('no enrolment token on standard input; ask an operator for one and pipe it in')
    const { tiers } = await withEquipment(config, (equipment) => prove(equipment, config.tiers))
    const enrolled = await enrol(config, token, [...tiers])
    if (!enrolled.ok) return enrolled
    const { worker, tenant, pool, edge } = enrolled.value
    openLog(json).say('enrolled', { worker, tenant, pool, edge_key: edge.kid, tiers })
    return ok(undefined)
  },
  rotate: async (config, { json }) => {
    const { holdHome } = await import('./host/home-lock.ts')
    const { rotateKey } = await import('./link/key-rotation.ts')
    const alone = await holdHome(config.home)
    if (!alone.ok) return alone
    const rotated = await rotateKey(config)
    if (!rotated.ok) return rotated
    const { worker, signer } = rotated.value
    openLog(json).say('the worker has a new key', { worker, key: signer.kid })
    return ok(undefined)
  },
  run: async ({ home }, { path, json }) => {
    const { reExecToServe } = await import('./re-exec.ts')
    await reExecToServe(home, ['--config', path, ...(json ? ['--json'] : [])])
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
    if (command === undefined || more.length > 0) return err('name one command: enrol, run, rotate or doctor')
    if (values.config === undefined) return err('name the configuration: --config FILE')
    return ok({ command, path: values.config, json: values.json })
  } catch (error) {
    return err(error instanceof Error ? error.message : String(error)) // parseArgs reports errors by throwing
  }
}

async function main(): Promise<number> {
  const printError = (sentence: string): void =>
    void process.stderr.write(`countersign-worker: ${sentence}\n`)
  const read = readArguments(process.argv.slice(2))
  if (!read.ok) {
    printError(`${read.error}; see --help`)
    return 2
  }
  if (read.value === 'help') {
    process.stdout.write(USAGE)
    return 0
  }
  const { command, path, json } = read.value
  const run = COMMANDS[command]
  if (run === undefined && command !== 'doctor') {
    printError(`there is no command \`${command}\`; see --help`)
    return 2
  }
  const platformFault = wrongPlatform({ platform: process.platform, machine: machineOf(process.arch) })
  if (platformFault !== undefined) {
    printError(`${platformFault} (\`unsupported_platform\`)`)
    return 1
  }
  closeInheritedDescriptors() // S21: before we open any descriptor ourselves
  if (run === undefined) return (await (await import('./doctor.ts')).doctor(path, json)) ? 0 : 1
  const root = refuseRoot()
  const config = root.ok ? readConfig(path) : root
  const result = config.ok ? await run(config.value, { path, json }) : config
  if (result.ok) return 0
  printError(result.error)
  return 1
}

process.exit(await main())
