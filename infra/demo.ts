// `npm run demo`: the story in a terminal, each step with the command or request that makes it. A harmless call runs; a sensitive one
// waits, is approved through its link, runs in tier C and is verified offline, and refused with one byte changed; a yes for a session
// saves the second question, and taken back it saves none; a forbidden call is denied with its reason; a skill is written, tried, published
// and called. Uses the stack that runs, where it leaves no skill, or starts one in a folder of its own. Exit code 0 only if every step did what it says.

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

/** The demo ends here if what it tells is not so. */
function check(condition: boolean, expected: string): asserts condition {
  if (!condition) throw new Error(`the demo expected ${expected}; what came instead is above`)
}

const title = (text: string): void => console.log(`\n${bold(text)}\n`)
const tell = (text: string): void => console.log(`# ${text}`)
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

/** Where the demo works: the stack whose keys the command line finds, and a folder for what it writes. `own`: it goes when the demo ends. */
type Place = { readonly state: string; readonly folder: string; readonly own: boolean; readonly key?: string }

/** `countersign …` as a user would type it, shown with all that it answers. */
function countersign(
  { state, folder, key }: Place,
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

function found(text: string, pattern: RegExp, what: string): string {
  const [, first] = pattern.exec(text) ?? []
  check(first !== undefined, what)
  return first
}
const callIn = (text: string): string => found(text, /\b(call_[0-9A-Z]{26}_\d+)/, 'the id of a call')

function harmless(place: Place): void {
  title('1  A harmless call: allowed by policy, run in a sandbox, attested')
  const { code, out } = countersign(place, 'call', 'text.stats', '--args', '{"text":"who signs, answers\\n"}')
  check(
    code === 0 && out.startsWith('succeeded') && /decided +allow/.test(out) && /attested +att_/.test(out),
    'a call that succeeded',
  )
}

async function sensitive(place: Place): Promise<void> {
  title('2  A sensitive call: it waits for a human, runs in tier C, and its attestation is verified offline')
  const asked = countersign(
    place,
    'call',
    'process.run',
    '--args',
    '{"command":"sha256sum","args":["/usr/bin/env"]}',
  )
  check(asked.code === 0 && asked.out.startsWith('awaiting_approval'), 'a call that waits for approval')
  const call = callIn(asked.out)

  tell('what the operator sees; the link is theirs alone, the agent never learns it')
  const card = countersign(place, 'approvals', 'show', call.replace('call_', 'apr_'))
  await answerOnPage(found(card.out, /link +(http\S+)/, 'a link'))

  const ended = countersign(place, 'calls', 'show', call, '--wait', '30')
  check(
    ended.code === 0 &&
      ended.out.startsWith('succeeded') &&
      /[0-9a-f]{64} {2}\/usr\/bin\/env/.test(ended.out),
    'a digest as output',
  )
  countersign(place, 'attestation', call, '-o', 'bundle.json')
  countersign(place, 'keys', '-o', 'keys.json')
  tell('from here on nothing but these two files is needed')
  const verified = countersign(place, 'verify', 'bundle.json', '--keys', 'keys.json')
  check(verified.code === 0 && /^verified$/m.test(verified.out), 'a verified attestation')

  const bytes = readFileSync(join(place.folder, 'bundle.json'))
  const at = bytes.indexOf('/usr/bin/env') + '/usr/bin/en'.length
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(join(place.folder, 'forged.json'), bytes)
  tell(`the same with one bit changed: byte ${at} says /usr/bin/enw`)
  const forged = countersign(place, 'verify', 'forged.json', '--keys', 'keys.json')
  check(forged.code === 1 && /^NOT VERIFIED$/m.test(forged.out), 'a forgery that is refused')
}

/** What a browser does when an operator opens the link and presses the button. */
async function answerOnPage(url: string): Promise<void> {
  console.log(bold(`> GET ${url}`))
  const shown = await fetch(url, { signal: AbortSignal.timeout(HTTP_MS) })
  const page = await shown.text()
  const heading = found(page, /<h1>([^<]+)<\/h1>/, 'a page with a heading')
  const buttons = [
    ...page.matchAll(/<button(?![^>]* (?:hidden|tabindex))[^>]*name="decision"[^>]*>\s*([^<]+?)\s*</g),
  ].map(([, label]) => `[${label}]`)
  print(`${shown.status} ${heading}\n${buttons.join(' ')}`)
  check(shown.ok && buttons.length === 2, 'a page with two buttons')

  const form = new URLSearchParams({
    decision: 'approve',
    reason: 'the demo says so',
    nonce: found(page, /name="nonce" value="([^"]+)"/, 'a nonce in the form'),
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
  const how = found(outcome, /role="status"><h1>([^<]+)/, 'a page that says how it was answered')
  print(
    `${answered.status} ${how} · ${found(outcome, /by <strong>([^<]+)/, 'a page that says who answered')}`,
  )
  check(answered.ok, 'an answer that was taken')
}

function standing(place: Place): void {
  title(
    '3  An answer that stands: a yes for the session saves the second question; taken back, it saves none',
  )
  const digestOf = (file: string, ...more: string[]) =>
    countersign(
      place,
      'call',
      'process.run',
      '--args',
      JSON.stringify({ command: 'sha256sum', args: [file] }),
      ...more,
    )
  const first = digestOf('/usr/bin/id')
  check(first.code === 0 && first.out.startsWith('awaiting_approval'), 'a call that waits for approval')
  const call = callIn(first.out)
  const run = call.replace(/^call_(.*)_\d+$/, 'run_$1')
  const approval = call.replace('call_', 'apr_')
  const card = countersign(place, 'approvals', 'show', approval)
  check(
    /can stand +for 12 h at the most: every call of `process.run`/.test(card.out),
    'a card that says what an answer could cover',
  )
  const yes = countersign(place, 'approvals', 'approve', approval, '--session')
  check(yes.code === 0 && /approve \(session\)/.test(yes.out), 'an answer for the session')

  const second = digestOf('/usr/bin/cat', '--run', run)
  check(
    second.code === 0 && second.out.startsWith('succeeded') && /approved by standing approvals/.test(second.out),
    'a call that nobody was asked about',
  )
  const stands = countersign(place, 'approvals', 'standing')
  const revoked = countersign(
    place,
    'approvals',
    'revoke',
    found(stands.out, new RegExp(`(std_\\w+).*session \`${run}\``), 'what stands'),
  )
  check(revoked.code === 0, 'an answer that is taken back')
  const third = digestOf('/usr/bin/env', '--run', run)
  check(third.code === 0 && third.out.startsWith('awaiting_approval'), 'a call that is asked about again')
  const no = countersign(place, 'approvals', 'deny', callIn(third.out).replace('call_', 'apr_'))
  check(no.code === 0, 'an answer that was taken')
}

function forbidden(place: Place): void {
  title('4  A forbidden call: denied with its reason, which is attested too')
  const denied = countersign(place, 'call', 'process.run', '--args', '{"command":"sudo","args":["id"]}')
  check(
    denied.code === 1 && denied.out.startsWith('denied') && /decided +deny by \S/.test(denied.out),
    'a denial with its reason',
  )
  countersign(place, 'attestation', callIn(denied.out), '-o', 'denial.json')
  const verified = countersign(place, 'verify', 'denial.json', '--keys', 'keys.json')
  check(verified.code === 0 && /ran +nothing/.test(verified.out), 'an attestation that nothing ran')
}

function skill(place: Place): void {
  title('5  A skill: code of one’s own at the edge, in an isolate without a network, on fuel')
  const written = countersign(place, 'skill', 'new', 'hello', '--publisher', 'demo')
  check(written.code === 0, 'a skill')
  tell('its test, in the isolate that real calls run in; nothing is published for it')
  const tested = countersign(place, 'skill', 'test', 'hello')
  check(tested.code === 0 && /^2 passed$/m.test(tested.out), 'tests that pass')
  if (place.own) published(place)
  else tell('to publish it in a stack that stays: docs/skills.md')
}

/** By one operator, and enabled by another. */
function published(place: Place): void {
  tell('a publisher has a key, and is on the list')
  const made = countersign(place, 'skill', 'keygen', 'demo')
  countersign(place, 'skill', 'publishers', 'put', 'demo', found(made.out, /public +(\S+)/, 'a public key'))
  countersign(place, 'skill', 'build', 'hello')
  const waiting = countersign(place, 'skill', 'publish', 'hello')
  check(waiting.code === 0 && / quarantined$/m.test(waiting.out), 'a skill in quarantine')
  tell('nobody enables what they have published: here that is root, until somebody else is there')
  const own = countersign(place, 'skill', 'enable', 'hello', '1.0.0')
  check(own.code === 1, 'a refusal')
  const [, ann = ''] =
    /key +(cs_operator_\S+)/.exec(countersign(place, 'operators', 'put', 'ann', '--roles', 'admin').out) ?? []
  const enabled = countersign(
    { ...place, key: ann },
    'skill',
    'enable',
    'hello',
    '1.0.0',
    '--reason',
    'it only logs',
  )
  check(enabled.code === 0, 'a skill that is enabled')
  const called = countersign(place, 'call', 'hello.greet', '--args', '{"name":"Ada"}')
  check(called.code === 0 && called.out.includes('Hello, Ada!'), 'a greeting')
  countersign(place, 'attestation', callIn(called.out), '-o', 'greeting.json')
  const verified = countersign(place, 'verify', 'greeting.json', '--keys', 'keys.json')
  check(
    verified.code === 0 && /skill +sha256 [0-9a-f]{64}/.test(verified.out),
    'an attestation that says which code ran',
  )
}

/** The state folder of the stack that runs, if one does. */
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

/** A stack for the length of the demo, and how to end it. */
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
// The terminal, npm and whoever wraps us may each pass the same Ctrl-C on: the first one ends the demo, the others change nothing.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void end(130))

try {
  const theirs = await running()
  if (theirs === undefined) stop = await ownStack(join(folder, 'state'))
  const place = { state: theirs ?? join(folder, 'state'), folder, own: theirs === undefined }
  harmless(place)
  await sensitive(place)
  standing(place)
  forbidden(place)
  skill(place)
  title('The evidence of the call that was approved, and of the one that was denied, is')
  console.log(good('verified'))
  await end(0)
} catch (thrown) {
  say(thrown instanceof Error ? thrown.message : String(thrown))
  await end(1)
}
