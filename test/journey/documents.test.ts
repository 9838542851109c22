// Promise: the documents are true. Every console block in them runs against a running stack: the
// commands in order, in one shell for each document, and the answers that a document shows are the
// answers that come. A block that can't run here is marked, counted, and explained.

import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Stack } from '../../infra/stack.ts'
import { ROOT } from '../../infra/state.ts'
import { WebhookReceiver } from '../support/channels/webhook-receiver.ts'
import type { Step } from '../support/doc-runner.ts'
import { follow, NOT_RUN, Shell, stepsOf } from '../support/doc-runner.ts'
import { startTestStack } from '../support/stack/stack.ts'

/**
 * Documents with a test file of their own, because they need a stack that nobody has used before.
 */
const ELSEWHERE = ['docs/policies.md', 'docs/skills.md']
/** The number of blocks in each document that no test can run. */
const LEFT_OUT: Readonly<Record<string, number>> = {
  'README.md': 1, // `npm start`, which runs until Ctrl-C: test/journey/start.test.ts
  'docs/agents.md': 2, // packages of registries: test/clients
  'docs/export.md': 2, // a bucket, and a deleted tenant: test/edge/export, test/faults/export.test.ts
  'docs/hosts.md': 3, // systemd: `npm run test:hosts`. Cloudflare: an account
  'docs/keys-and-secrets.md': 2, // an edge that restarts: test/faults/secrets.test.ts
  'docs/operations.md': 1, // a second state folder: test/faults/backup
  'docs/slack.md': 2, // a Slack app
  'docs/upstreams.md': 2, // a third-party MCP server
}

const textOf = (document: string): string => readFileSync(join(ROOT, document), 'utf8')
const documents = globSync(['*.md', 'docs/*.md', 'policies/*.md', 'skills/*.md'], { cwd: ROOT }).toSorted()
const run = documents.filter(
  (document) => !ELSEWHERE.includes(document) && stepsOf(textOf(document)).some(isCommand),
)

function isCommand({ kind }: Step): boolean {
  return kind === 'command'
}

describe('console blocks', () => {
  test('every console block of the documents is run by a test, except the blocks that are counted here', () => {
    const left = documents.flatMap((document) => {
      const count = textOf(document).match(new RegExp(`^ *\`\`\`console ${NOT_RUN}$`, 'gm'))?.length ?? 0
      return count === 0 ? [] : [[document, count] as const]
    })
    expect(Object.fromEntries(left)).toEqual(LEFT_OUT)
    expect(run).toEqual(expect.arrayContaining(['README.md', 'docs/agents.md', 'docs/files.md']))
  })

  test('the paragraph above a console block that no test runs says why', () => {
    for (const document of Object.keys(LEFT_OUT).filter((name) => name !== 'README.md')) {
      const paragraphs = textOf(document).split(/\n\n/)
      for (const [i, paragraph] of paragraphs.entries())
        if (paragraph.includes(`\`\`\`console ${NOT_RUN}`))
          expect(paragraphs[i - 1], document).toMatch(/^ *\*No (?:documentation )?test runs this block/)
    }
  })

  test.each(documents)('%s has shell commands only in console blocks', (document) => {
    expect([...textOf(document).matchAll(/^ *```(?:sh|bash|shell)$/gm)]).toEqual([])
  })
})

describe('commands', () => {
  let stack: Stack
  let receiver: WebhookReceiver
  const folders: string[] = []
  beforeAll(async () => {
    receiver = await WebhookReceiver.open()
    const outside = ['https://hooks.example.com', 'https://api.resend.com'].map((origin) => [
      origin,
      receiver.url,
    ])
    stack = await startTestStack({ loopbackChannels: Object.fromEntries(outside) })
  })
  afterAll(async () => {
    await stack?.stop()
    await receiver?.close()
    for (const folder of folders) rmSync(folder, { recursive: true })
  })

  /** A command without a shown answer may print anything. */
  const leftOut = (step: Step): Step =>
    step.kind === 'command' && step.shown.length === 0 ? { ...step, shown: ['…'] } : step

  test.each(run)(
    'every command of %s does what the document says',
    { timeout: 300_000 },
    async (document) => {
      // Commands may also write next to the folder that they run in.
      const outer = mkdtempSync(join(tmpdir(), 'countersign-document-'))
      folders.push(outer)
      const folder = join(outer, 'reader')
      const state = dirname(stack.state.dev)
      mkdirSync(join(folder, '.countersign'), { recursive: true })
      symlinkSync(stack.state.dev, join(folder, '.countersign/dev.json'))
      // Documents read these files of the repository.
      mkdirSync(join(folder, 'test'))
      for (const part of ['docs', 'test/verifier']) symlinkSync(join(ROOT, part), join(folder, part))
      // As infra/start.ts writes it; test/journey/start.test.ts checks that it does.
      writeFileSync(
        join(folder, '.countersign/agent.header'),
        `authorization: Bearer ${stack.dev.agent_key}\n`,
        { mode: 0o600 },
      )
      const shell = new Shell(folder, state, stack.url)
      try {
        await follow(stepsOf(textOf(document)).map(leftOut), shell, folder)
      } finally {
        shell.stop()
      }
    },
  )
})
