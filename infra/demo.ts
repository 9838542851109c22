// `npm run demo`: shows the product in a terminal, step by step, with each command and request. A
// harmless call runs; a sensitive one is approved through its link and verified offline; a standing
// approval saves a question; a forbidden call is denied; a skill is created, tested, published and
// called. Uses the running stack (without publishing a skill there) or starts one. Exits with 0
// only if all steps succeed.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { wantsColour } from '../cli/shell/config.ts'
import { inert, paint } from '../cli/shell/terminal-text.ts'
import { sayOnStderr as say } from './setup.ts'
import { startStack } from './stack.ts'
import { ROOT, stateDir } from './state.ts'

const { bold, dim, good, bad } = paint(wantsColour(process.stdout.isTTY))
const COMMAND_MS = 60_000
const HTTP_MS = 10_000

/** Ends the demo with an error if a step did not do what it claims. */
function check(condition: boolean, expected: string): asserts condition {
  if (!condition)
    throw new Error(`the demo expected ${expected}; the output above shows what happened instead`)
}

const title = (text: string): void => console.log(`\n${bold(text)}\n`)
const explain = (text: string): void => console.log(`# ${text}`)
const coloured = (line: string): string =>
  line.replace(/^verified$/, good).replace(/^NOT VERIFIED$|^ {2}FAIL/, bad)
const print = (text: string): void =>
  console.log(
    inert(text)
      .trimEnd()
      .split('\n')
      .map((line) => `  ${coloured(line)}`)
      .join('\n'),
  )

/**
 * The state folder of the stack and a folder for files. `own`: the demo started the stack and
 * removes it at the end.
 */
type DemoStack = {
  readonly state: string
  readonly folder: string
  readonly own: boolean
  readonly key?: string
}

/** Runs `countersign …` and prints the command and its output. */
function countersign(
  { state, folder, key }: DemoStack,
  ...args: readonly string[]
): { readonly code: number | null; readonly out: string } {
  console.log(
    bold(`$ countersign ${args.map((arg) => (/[^\w./:=-]/.test(arg) ? `'${arg}'` : arg)).join(' ')}`),
  )
  const ran = spawnSync(process.execPath, [join(ROOT, 'cli/main.ts'), ...args], {
    cwd: folder,
    env: {
      PATH: '/usr/bin:/bin',
      COUNTERSIGN_STATE: state,
      XDG_CONFIG_HOME: folder,
      ...(key === undefined ? {} : { COUNTERSIGN_KEY: key }),
    },
    encoding: 'utf8',
    timeout: COMMAND_MS,
  })
  const out = `${ran.stdout}${ran.stderr}`
  print(out)
  return { code: ran.status, out }
}

function match(text: string, pattern: RegExp, what: string): string {
  const [, first] = pattern.exec(text) ?? []
  check(first !== undefined, what)
  return first
}
const callIn = (text: string): string => match(text, /\b(call_[0-9A-Z]{26}_\d+)/, 'the id of a call')

function harmless(demo: DemoStack): void {
  title('1  A harmless call: policy allows it, it runs in a sandbox and is attested')
  const { code, out } = countersign(demo, 'call', 'text_stats', '--args', '{"text":"who signs, answers\\n"}')
  check(
    code === 0 && out.startsWith('succeeded') && /decided +allow/.test(out) && /attested +att_/.test(out),
    'a call that succeeded',
  )
}

async function sensitive(demo: DemoStack): Promise<void> {
  title(
    '2  A sensitive call: it waits for an approval, runs in tier C, and its attestation is verified offline',
  )
  const asked = countersign(
    demo,
    'call',
    'process_run',
    '--args',
    '{"command":"sha256sum","args":["/usr/bin/env"]}',
  )
  check(asked.code === 0 && asked.out.startsWith('awaiting_approval'), 'a call that waits for approval')
  const call = callIn(asked.out)

  explain('this is what the operator sees; only the operator gets the link, never the agent')
  const card = countersign(demo, 'approvals', 'show', call.replace('call_', 'apr_'))
  await answerOnPage(match(card.out, /link +(http\S+)/, 'a link'))

  const ended = countersign(demo, 'calls', 'show', call, '--wait', '30')
  check(
    ended.code === 0 &&
      ended.out.startsWith('succeeded') &&
      /[0-9a-f]{64} {2}\/usr\/bin\/env/.test(ended.out),
    'a digest as output',
  )
  countersign(demo, 'attestation', call, '-o', 'bundle.json')
  countersign(demo, 'keys', '-o', 'keys.json')
  explain('verification needs only these two files, and no network')
  const verified = countersign(demo, 'verify', 'bundle.json', '--keys', 'keys.json')
  check(verified.code === 0 && /^verified$/m.test(verified.out), 'a verified attestation')

  const bytes = readFileSync(join(demo.folder, 'bundle.json'))
  const at = bytes.indexOf('/usr/bin/env') + '/usr/bin/en'.length
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(join(demo.folder, 'forged.json'), bytes)
  explain(`the same bundle with one bit changed: at byte ${at}, /usr/bin/env becomes /usr/bin/enw`)
  const forged = countersign(demo, 'verify', 'forged.json', '--keys', 'keys.json')
  check(forged.code === 1 && /^NOT VERIFIED$/m.test(forged.out), 'a forgery that is refused')
}

/** Sends the requests of a browser in which an operator opens the link and presses the button. */
async function answerOnPage(url: string): Promise<void> {
  console.log(bold(`> GET ${url}`))
  const shown = await fetch(url, { signal: AbortSignal.timeout(HTTP_MS) })
  const page = await shown.text()
  const heading = match(page, /<h1>([^<]+)<\/h1>/, 'a page with a heading')
  const buttons = [
    ...page.matchAll(/<button(?![^>]* (?:hidden|tabindex))[^>]*name="decision"[^>]*>\s*([^<]+?)\s*</g),
  ].map(([, label]) => `[${label}]`)
  print(`${shown.status} ${heading}\n${buttons.join(' ')}`)
  check(shown.ok && buttons.length === 2, 'a page with two buttons')

  const form = new URLSearchParams({
    decision: 'approve',
    reason: 'the demo says so',
    nonce: match(page, /name="nonce" value="([^"]+)"/, 'a nonce in the form'),
  })
  const { origin } = new URL(url)
  console.log(bold(`> POST ${url}`))
  print(dim(`origin: ${origin}\n${form}`))
  const answered = await fetch(url, {
    method: 'POST',
    body: form,
    headers: { origin, 'sec-fetch-site': 'same-origin' },
    signal: AbortSignal.timeout(HTTP_MS),
  })
  const outcome = await answered.text()
  const how = match(outcome, /role="status"><h1>([^<]+)/, 'a page that shows the answer')
  print(
    `${answered.status} ${how} · ${match(outcome, /by <strong>([^<]+)/, 'a page that shows who answered')}`,
  )
  check(answered.ok, 'an accepted answer')
}

function standing(demo: DemoStack): void {
  title(
    '3  A standing approval: given for the session, it also covers the second call; revoked, it covers none',
  )
  const digestOf = (file: string, ...more: string[]) =>
    countersign(
      demo,
      'call',
      'process_run',
      '--args',
      JSON.stringify({ command: 'sha256sum', args: [file] }),
      ...more,
    )
  const first = digestOf('/usr/bin/id')
  check(first.code === 0 && first.out.startsWith('awaiting_approval'), 'a call that waits for approval')
  const call = callIn(first.out)
  const run = call.replace(/^call_(.*)_\d+$/, 'run_$1')
  const approval = call.replace('call_', 'apr_')
  const card = countersign(demo, 'approvals', 'show', approval)
  check(
    /standing answer +possible for up to 12 h: every call of `process_run`/.test(card.out),
    'an approval that says what it could cover',
  )
  const yes = countersign(demo, 'approvals', 'approve', approval, '--session')
  check(yes.code === 0 && /approve \(session\)/.test(yes.out), 'an answer for the session')

  const second = digestOf('/usr/bin/cat', '--run', run)
  check(
    second.code === 0 &&
      second.out.startsWith('succeeded') &&
      /approved by standing approvals/.test(second.out),
    'a call that needs no new approval',
  )
  const stands = countersign(demo, 'approvals', 'standing')
  const revoked = countersign(
    demo,
    'approvals',
    'revoke',
    match(stands.out, new RegExp(`(std_\\w+).*session \`${run}\``), 'a standing approval'),
  )
  check(revoked.code === 0, 'a revoked standing approval')
  const third = digestOf('/usr/bin/env', '--run', run)
  check(third.code === 0 && third.out.startsWith('awaiting_approval'), 'a call that needs an approval again')
  const no = countersign(demo, 'approvals', 'deny', callIn(third.out).replace('call_', 'apr_'))
  check(no.code === 0, 'an accepted answer')
}

function forbidden(demo: DemoStack): void {
  title('4  A forbidden call: it is denied with a reason, and the denial is attested too')
  const denied = countersign(demo, 'call', 'process_run', '--args', '{"command":"sudo","args":["id"]}')
  check(
    denied.code === 1 && denied.out.startsWith('denied') && /decided +deny by \S/.test(denied.out),
    'a denial with its reason',
  )
  countersign(demo, 'attestation', callIn(denied.out), '-o', 'denial.json')
  const verified = countersign(demo, 'verify', 'denial.json', '--keys', 'keys.json')
  check(verified.code === 0 && /ran +nothing/.test(verified.out), 'an attestation that nothing ran')
}

function skill(demo: DemoStack): void {
  title('5  A skill: your own code at the edge, in an isolate without a network and with limited CPU')
  const written = countersign(demo, 'skill', 'new', 'hello', '--publisher', 'demo')
  check(written.code === 0, 'a skill')
  explain('its tests run in the same kind of isolate as real calls; nothing is published')
  const tested = countersign(demo, 'skill', 'test', 'hello')
  check(tested.code === 0 && /^2 passed$/m.test(tested.out), 'tests that pass')
  if (demo.own) publishAndCall(demo)
  else explain('docs/skills.md shows how to publish it')
}

/** One operator publishes the skill, another enables it. */
function publishAndCall(demo: DemoStack): void {
  explain('the publisher needs a key, and an operator registers it')
  const made = countersign(demo, 'skill', 'keygen', 'demo')
  countersign(demo, 'skill', 'publishers', 'put', 'demo', match(made.out, /public +(\S+)/, 'a public key'))
  countersign(demo, 'skill', 'build', 'hello')
  const waiting = countersign(demo, 'skill', 'publish', 'hello')
  check(waiting.code === 0 && / quarantined$/m.test(waiting.out), 'a skill in quarantine')
  explain('root published the skill, so root can’t enable it; another operator has to')
  const own = countersign(demo, 'skill', 'enable', 'hello', '1.0.0')
  check(own.code === 1, 'that root can’t enable it')
  const [, ann = ''] =
    /key +(cs_operator_\S+)/.exec(countersign(demo, 'operators', 'put', 'ann', '--roles', 'admin').out) ?? []
  const enabled = countersign(
    { ...demo, key: ann },
    'skill',
    'enable',
    'hello',
    '1.0.0',
    '--reason',
    'it only logs',
  )
  check(enabled.code === 0, 'a skill that is enabled')
  const called = countersign(demo, 'call', 'hello_greet', '--args', '{"name":"Ada"}')
  check(called.code === 0 && called.out.includes('Hello, Ada!'), 'a greeting')
  countersign(demo, 'attestation', callIn(called.out), '-o', 'greeting.json')
  const verified = countersign(demo, 'verify', 'greeting.json', '--keys', 'keys.json')
  check(
    verified.code === 0 && /skill +sha256 [0-9a-f]{64}/.test(verified.out),
    'an attestation that names the code that ran',
  )
}

/** The state folder of the running stack, if there is one. */
async function running(): Promise<string | undefined> {
  const state = stateDir()
  const dev = join(state, 'dev.json')
  if (!existsSync(dev)) return undefined
  const { url } = JSON.parse(readFileSync(dev, 'utf8')) as { url: string } // written by the stack
  const answer = await fetch(new URL('/healthz', url), { signal: AbortSignal.timeout(2_000) }).catch(
    () => undefined,
  )
  return answer?.ok === true ? state : undefined
}

/** Starts a stack for the demo; returns the function that stops it. */
async function ownStack(state: string): Promise<() => Promise<void>> {
  const started = await startStack({ state, say })
  if (started.ok) return started.value.stop
  throw new Error(started.error)
}

const folder = mkdtempSync(join(tmpdir(), 'countersign-demo-'))
let stop = async (): Promise<void> => undefined
let ending: Promise<never> | undefined
const end = (code: number): Promise<never> => {
  ending ??= stop().then(() => {
    rmSync(folder, { recursive: true, force: true })
    return process.exit(code)
  })
  return ending
}
// Terminal, npm and wrappers may each forward the same Ctrl-C: the first signal ends the demo,
// later ones are ignored.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(130))

try {
  const runningState = await running()
  if (runningState === undefined) stop = await ownStack(join(folder, 'state'))
  const demo = { state: runningState ?? join(folder, 'state'), folder, own: runningState === undefined }
  harmless(demo)
  await sensitive(demo)
  standing(demo)
  forbidden(demo)
  skill(demo)
  title('The attestations of the approved call and of the denied call are')
  console.log(good('verified'))
  await end(0)
} catch (thrown) {
  say(thrown instanceof Error ? thrown.message : String(thrown))
  await end(1)
}
