// The steps of the demo that need nothing but the product: a harmless call, a sensitive one, a
// standing approval, a forbidden call and a skill. Each fails if something is not as it claims.

import { answerOnPage } from './approval-page.ts'
import { backUp } from './evidence.ts'
import { callIn, check, countersign, type DemoStack, explain, match, title } from './terminal.ts'

export function harmless(demo: DemoStack): void {
  title('1  A harmless call: policy allows it, it runs in a sandbox and is attested')
  const { code, out } = countersign(demo, 'call', 'text_stats', '--args', '{"text":"who signs, answers\\n"}')
  check(
    code === 0 && out.startsWith('succeeded') && /decided +allow/.test(out) && /attested +att_/.test(out),
    'a call that succeeded',
  )
}

/** Returns the id of the call. */
export async function sensitive(demo: DemoStack): Promise<string> {
  title('2  A sensitive call: it waits for an approval, and then runs in tier C')
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
  return call
}

export function standing(demo: DemoStack): void {
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

export function forbidden(demo: DemoStack): void {
  title('4  A forbidden call: it is denied with a reason, and the denial is attested too')
  const denied = countersign(demo, 'call', 'process_run', '--args', '{"command":"sudo","args":["id"]}')
  check(
    denied.code === 1 && denied.out.startsWith('denied') && /decided +deny by \S/.test(denied.out),
    'a denial with its reason',
  )
  countersign(demo, 'attestation', callIn(denied.out), '-o', 'denial.json')
  countersign(demo, 'keys', 'list', '-o', 'keys.json')
  const verified = countersign(demo, 'verify', 'denial.json', '--keys', 'keys.json')
  check(verified.code === 0 && /ran +nothing/.test(verified.out), 'an attestation that nothing ran')
  if (demo.own !== undefined) backUp(demo)
}

export function skill(demo: DemoStack): void {
  title('6  A skill: your own code at the edge, in an isolate without a network and with limited CPU')
  const written = countersign(demo, 'skill', 'new', 'hello', '--publisher', 'demo')
  check(written.code === 0, 'a skill')
  explain('its tests run in the same kind of isolate as real calls; nothing is published')
  const tested = countersign(demo, 'skill', 'test', 'hello')
  check(tested.code === 0 && /^2 passed$/m.test(tested.out), 'tests that pass')
  if (demo.own !== undefined) publishAndCall(demo)
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
