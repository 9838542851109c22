// `node main.ts [--json] (--url LINK… | -- PROGRAM ARG…)`: runs the suite against the approval
// links of any product. It needs only Node.

import { parseArgs } from 'node:util'
import type { Settings, Target } from './check.ts'
import { conform, DEFAULTS, type Finding } from './suite.ts'
import { byLinks, byProgram } from './target.ts'

const USAGE = `Usage: node main.ts [options] -- PROGRAM ARG…
       node main.ts [options] --url LINK --url LINK …

Tests approval links for known faults. README.md describes the output that PROGRAM must print.

  --url LINK            a link of a waiting approval; about six are used up, and expiry is not tested
  --approve NAME=VALUE  the form's field for yes (${DEFAULTS.approve.join('=')})
  --deny NAME=VALUE     the form's field for no (${DEFAULTS.deny.join('=')})
  --posts N             number of simultaneous answers (${DEFAULTS.posts})
  --mutations N         number of random alterations of a token (${DEFAULTS.mutations})
  --seed N              seed of the alterations (${DEFAULTS.seed})
  --life N              lifetime in seconds of an approval that is made to expire (${DEFAULTS.life_s})
  --json                one JSON document instead of the table

Exits with 0 when every promise was kept, 1 when one was broken, 2 when a check could not run, 64 for wrong arguments.`

const OUTCOMES = { kept: 0, broken: 1, 'not run': 2 } as const

type Arguments = { readonly target: Target; readonly settings: Settings; readonly json: boolean }

/** Parses the command line. Throws a `TypeError` with the fault, like `parseArgs`. */
function readArguments(args: string[]): Arguments | undefined {
  const text = { type: 'string' } as const
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      url: { ...text, multiple: true },
      approve: text,
      deny: text,
      posts: text,
      mutations: text,
      seed: text,
      life: text,
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help === true) return undefined
  const links = values.url ?? []
  if ((links.length === 0) === (positionals.length === 0))
    throw new TypeError('give either a program after `--` or links with `--url`')
  const settings: Settings = {
    approve: pair(values.approve) ?? DEFAULTS.approve,
    deny: pair(values.deny) ?? DEFAULTS.deny,
    posts: count(values.posts) ?? DEFAULTS.posts,
    mutations: count(values.mutations) ?? DEFAULTS.mutations,
    seed: count(values.seed) ?? DEFAULTS.seed,
    life_s: count(values.life) ?? DEFAULTS.life_s,
  }
  return {
    target: links.length > 0 ? byLinks(links) : byProgram(positionals),
    settings,
    json: values.json === true,
  }
}

async function report({ target, settings, json }: Arguments): Promise<number> {
  const findings = await conform(target, settings, json ? undefined : (finding) => console.log(row(finding)))
  const tally = (outcome: Finding['outcome']): number =>
    findings.filter((finding) => finding.outcome === outcome).length
  if (json) console.log(JSON.stringify({ settings, findings }, null, 2))
  else console.log(`\n${tally('kept')} kept, ${tally('broken')} broken, ${tally('not run')} not run`)
  return tally('broken') > 0 ? OUTCOMES.broken : tally('not run') > 0 ? OUTCOMES['not run'] : OUTCOMES.kept
}

const FAULTS_SHOWN = 5
const row = ({ name, promise, outcome, saw }: Finding): string =>
  [
    `${outcome.padEnd(8)} ${name.padEnd(15)} ${promise}`,
    ...saw.slice(0, FAULTS_SHOWN).map((fault) => `${' '.repeat(25)}${fault}`),
    ...(saw.length > FAULTS_SHOWN ? [`${' '.repeat(25)}and ${saw.length - FAULTS_SHOWN} more`] : []),
  ].join('\n')

function pair(text: string | undefined): [string, string] | undefined {
  if (text === undefined) return undefined
  const at = text.indexOf('=')
  if (at < 1) throw new TypeError(`\`${text}\` must have the form NAME=VALUE`)
  return [text.slice(0, at), text.slice(at + 1)]
}

function count(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^[1-9]\d{0,6}$/.test(text))
    throw new TypeError(`\`${text}\` must be a whole number from 1 to 9,999,999`)
  return Number(text)
}

function main(): Promise<number> | number {
  try {
    const asked = readArguments(process.argv.slice(2))
    if (asked !== undefined) return report(asked)
    console.log(USAGE)
    return 0
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    console.error(`${error.message}\n\n${USAGE}`)
    return 64
  }
}

process.exitCode = await main()
