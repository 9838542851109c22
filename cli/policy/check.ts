// Policies checked before they are put: what the edge finds in a folder of them, and whether they decide the calls of a file of cases as
// expected. Both ask the edge, because policies hold or fail against the tenant's own tools; neither changes anything there.

import { join } from 'node:path'
import { ok } from '../../shared/result.ts'
import type { Output as Answered } from '../../shared/routes/client.ts'
import type { CaseResult } from '../../shared/wire/policy-cases.ts'
import type { Command } from '../shell/command.ts'
import { command } from '../shell/command.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline } from '../shell/terminal-text.ts'
import { DIR, overlooked, pathed, readCases, readFolder } from './folder.ts'

type Checked = Answered<'checkPolicies'>

const lint = command({
  words: ['policy', 'lint'],
  args: DIR,
  flags: {},
  does: 'Check policies against the tenant’s tools, as putting them would; nothing is stored',
  key: 'operator',
  exits: '0 they could be put, whatever the warnings say; 1 they could not, or there is no edge to ask',
  examples: ['countersign policy lint my-policies'],
  async run({ args, api, paint }) {
    const policies = readFolder(args.DIR)
    if (!policies.ok) return policies
    const checked = await api('checkPolicies', { body: { policies: policies.value } })
    if (!checked.ok) return checked
    const beside = overlooked(args.DIR, policies.value)
    const asides = beside.map((said) => `${paint.warn('warning')}: ${inline(said)}\n`).join('')
    return ok({
      ok: holds(checked.value),
      json: checked.value,
      text: `${findings(checked.value, args.DIR, policies.value, paint)}${asides}${verdict(checked.value, paint, beside.length)}`,
    })
  },
})

const test = command({
  words: ['policy', 'test'],
  args: { ...DIR, 'CASES?': 'a file of cases, or a folder of them; DIR/cases if you say nothing' },
  flags: {},
  does: 'Decide the calls of files of cases by these policies, and compare; nothing is stored, runs or asks anybody',
  key: 'operator',
  exits: '0 every case came out as expected; 1 one did not, or the policies could not be put',
  examples: ['countersign policy test my-policies', 'countersign policy test my-policies cases/refunds.json'],
  async run({ args, api, paint }) {
    const policies = readFolder(args.DIR)
    if (!policies.ok) return policies
    const files = readCases(args.CASES ?? join(args.DIR, 'cases'))
    if (!files.ok) return files
    const told: ({ readonly file: string } & Checked)[] = []
    let text = ''
    let undecided = ''
    for (const { path, cases } of files.value) {
      const checked = await api('checkPolicies', { body: { policies: policies.value, cases } })
      if (!checked.ok)
        return { ok: false, error: { ...checked.error, detail: `\`${path}\`: ${checked.error.detail}` } }
      told.push({ file: path, ...checked.value })
      const why =
        checked.value.refusal === null
          ? ''
          : `${findings(checked.value, args.DIR, policies.value, paint)}${verdict(checked.value, paint)}`
      text += `${showFile(path, checked.value, paint)}${why === undecided ? '' : why}` // said once of all files for which it is the same
      undecided = why === '' ? undecided : why
    }
    const results = told.flatMap((each) => each.results)
    const failed = results.filter(({ passed }) => !passed).length
    const passed = results.length - failed
    const sum =
      failed === 0 ? paint.good(`${passed} passed`) : `${paint.bad(`${failed} failed`)}, ${passed} passed`
    const well = failed === 0 && told.every(({ refusal }) => refusal === null)
    return ok({ ok: well, json: { passed, failed, files: told }, text: `${text}${sum}\n` })
  },
})

const holds = ({ refusal, findings: found }: Checked): boolean =>
  refusal === null && found.every(({ severity }) => severity !== 'error')

function findings(
  { findings: found }: Checked,
  dir: string,
  policies: Readonly<Record<string, string>>,
  paint: Paint,
): string {
  return found
    .map(({ at, severity, ...said }) =>
      finding(
        { at: pathed(at, dir, policies), ...said },
        severity === 'error' ? paint.bad('error') : paint.warn('warning'),
      ),
    )
    .join('')
}

type Said = { readonly at: string; readonly message: string; readonly hint?: string | undefined }

const finding = ({ at, message, hint }: Said, what: string): string =>
  `${inline(at)}: ${what}: ${inline(message)}${hint === undefined ? '' : ` (${inline(hint)})`}\n`

export const warned = (warnings: readonly Said[], paint: Paint): string =>
  warnings.map((warning) => finding(warning, paint.warn('warning'))).join('')

function verdict(checked: Checked, paint: Paint, beside = 0): string {
  if (checked.refusal !== null) return `${paint.bad('refused')}: ${inline(checked.refusal.detail)}\n`
  if (!holds(checked)) return `${paint.bad('these policies can be stored, not put in force')}\n`
  const warnings = checked.findings.length + beside
  return `${paint.good('these policies can be put')}${warnings === 0 ? '' : `; warnings: ${warnings}`}\n`
}

function showFile(path: string, checked: Checked, paint: Paint): string {
  const { results, refusal } = checked
  const failed = results.filter(({ passed }) => !passed)
  const counted =
    refusal === null ? `${results.length - failed.length} of ${results.length} as expected` : 'not decided'
  return `${paint.bold(inline(path))}  ${counted}\n${failed.map((result) => showFailed(result, paint)).join('')}`
}

/** What was expected and what came, in the order in which one reads a decision. */
function showFailed({ description, differs, expected, got }: CaseResult, paint: Paint): string {
  const rows = [
    ['expected', told(expected)],
    ['got', told(got)],
    ...(got.unasked === undefined ? [] : [['', `decided before \`${got.unasked}\` was asked`]]),
    ['differs in', differs.join(', ')],
  ]
  return `  ${paint.bad('FAIL')}  ${inline(description)}\n${columns(rows, '        ')}`
}

type Told = Partial<Pick<CaseResult['got'], 'policies' | 'code' | 'reason'>> & {
  readonly effect: string
  readonly plan?:
    | { readonly tier: string; readonly egress: string; readonly hosts?: readonly string[] | undefined }
    | null
    | undefined
}

const told = ({ effect, code, policies, reason, plan }: { [K in keyof Told]: Told[K] | undefined }): string =>
  [
    effect,
    ...(code === undefined ? [] : [`(${code})`]),
    ...(policies === undefined || policies.length === 0 ? [] : [`by ${policies.join(', ')}`]),
    ...(plan === undefined || plan === null
      ? []
      : [`in tier ${plan.tier}, egress ${[plan.egress, ...(plan.hosts ?? [])].join(' ')}`]),
    ...(reason === undefined ? [] : [`because ${reason}`]),
  ].join(' ')

export const POLICY_CHECKS: readonly Command[] = [lint, test]
