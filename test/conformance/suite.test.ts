// The conformance suite finds nothing wrong with a sound product, and reports for each flaw exactly
// the promises that it breaks.

import { expect, test } from 'vitest'
import { ApprovalServer, type Flaw } from '../support/channels/approval-server.ts'
import { CHECKS, conform, DEFAULTS } from './approval-links/suite.ts'

const FEW = { ...DEFAULTS, posts: 20, mutations: 100, life_s: 1 }

async function brokenBy(flaw?: Flaw): Promise<string[]> {
  const server = await new ApprovalServer(flaw).start()
  try {
    const findings = await conform(server.target, FEW)
    return findings.filter(({ outcome }) => outcome !== 'kept').map(({ name }) => name)
  } finally {
    await server.stop()
  }
}

test.concurrent('a sound product that is not ours keeps every promise', async () =>
  expect(await brokenBy()).toEqual([]))

const FLAWS: Readonly<Record<Flaw, readonly string[]>> = {
  'decides on GET': CHECKS.map(({ name }) => name).filter((name) => name !== 'headers'),
  'decides on HEAD': ['head', 'expanders'],
  'decides on GET with a decision in the query': ['methods', 'crawl'],
  'decides on PUT': ['methods'],
  'decides when a browser fetches ahead': ['prefetch'],
  'decides for Slack’s expander': ['expanders'],
  'decides on a link of its page': ['crawl'],
  'asks for no nonce': ['no-nonce', 'foreign-nonce'],
  'takes the nonce of another approval': ['foreign-nonce'],
  'believes every origin': ['foreign-origin'],
  'reads plain text': ['disguises'],
  'accepts replays': ['once', 'forward', 'double-click', 'thousand', 'expiry'],
  'counts answers that come at once': ['double-click', 'thousand'],
  'never expires': ['expiry'],
  'compares half of the token': ['each-character', 'spliced', 'shapes', 'random'],
  'ignores the case of the token': ['each-character', 'shapes'],
  'ignores what follows the token': ['shapes'],
  'can be framed': ['headers'],
  'shows the form after the end': ['once', 'forward', 'expiry'],
}

// Concurrent, because each waits for an approval to expire. The cast names the table's own keys.
test.concurrent.each(Object.entries(FLAWS) as [Flaw, readonly string[]][])(
  'the suite detects a product that %s',
  async (flaw, promises) => {
    const broken = await brokenBy(flaw)
    // Few random alterations may or may not meet a small flaw.
    expect(promises.includes('random') ? broken : broken.filter((name) => name !== 'random')).toEqual(
      promises,
    )
  },
)
