// `countersign policy lint` and `policy test`: check a folder of policies before it is stored. Both
// ask the edge, because policies are validated against the tenant's own tools; neither changes
// anything.

import { join } from 'node:path'
import { ok } from '../../shared/result.ts'
import type { Output as RouteOutput } from '../../shared/routes/client.ts'
import type { CaseResult } from '../../shared/wire/policy-cases.ts'
import type { Command } from '../shell/command.ts'
import { command } from '../shell/command.ts'
import type { Paint } from '../shell/terminal-text.ts'
import { columns, inline } from '../shell/terminal-text.ts'
import { DIR, ignoredFiles, readCases, readFolder, withPath } from './folder.ts'

type CheckResult = RouteOutput<'checkPolicies'>

const lint = command({
  words: ['policy', 'lint'],
  args: DIR,
  flags: {},
  does: 'Check policies against the tenant’s tools, as `policy put` would; nothing is stored',
  key: 'operator',
  exits:
    '0 the policies can be put in force, even if there are warnings; 1 they can’t, or the edge can’t be reached',
  examples: ['countersign policy lint my-policies'],
  async run({ args, api, paint }) {
    const policies = readFolder(args.DIR)
    if (!policies.ok) return policies
    const checked = await api('checkPolicies', { body: { policies: policies.value } })
    if (!checked.ok) return checked
    const beside = ignoredFiles(args.DIR, policies.value)
    const asides = beside.map((text) => `${paint.warn('warning')}: ${inline(text)}\n`).join('')
    return ok({
      ok: canActivate(checked.value),
      json: checked.value,
      text: `${findingLines(checked.value, args.DIR, policies.value, paint)}${asides}${verdict(checked.value, paint, beside.length)}`,
    })
  },
})

const test = command({
  words: ['policy', 'test'],
  args: { ...DIR, 'CASES?': 'a file of test cases, or a folder of them (default: DIR/cases)' },
  flags: {},
  does: 'Run test cases against policies: decide each call and compare the decision; nothing is stored or run, and nobody is asked',
  key: 'operator',
  exits: '0 every case passed; 1 a case failed, or the policies can’t be put in force',
  examples: ['countersign policy test my-policies', 'countersign policy test my-policies cases/refunds.json'],
  async run({ args, api, paint }) {
    const policies = readFolder(args.DIR)
    if (!policies.ok) return policies
    const files = readCases(args.CASES ?? join(args.DIR, 'cases'))
    if (!files.ok) return files
    const checkedFiles: ({ readonly file: string } & CheckResult)[] = []
    let text = ''
    let undecided = ''
    for (const { path, cases } of files.value) {
      const checked = await api('checkPolicies', { body: { policies: policies.value, cases } })
      if (!checked.ok)
        return { ok: false, error: { ...checked.error, detail: `\`${path}\`: ${checked.error.detail}` } }
      checkedFiles.push({ file: path, ...checked.value })
      const why =
        checked.value.refusal === null
          ? ''
          : `${findingLines(checked.value, args.DIR, policies.value, paint)}${verdict(checked.value, paint)}`
      text += `${showFile(path, checked.value, paint)}${why === undecided ? '' : why}` // files with the same findings show them once
      undecided = why === '' ? undecided : why
    }
    const results = checkedFiles.flatMap((each) => each.results)
    const failed = results.filter(({ passed }) => !passed).length
    const passed = results.length - failed
    const sum =
      failed === 0 ? paint.good(`${passed} passed`) : `${paint.bad(`${failed} failed`)}, ${passed} passed`
    const well = failed === 0 && checkedFiles.every(({ refusal }) => refusal === null)
    return ok({ ok: well, json: { passed, failed, files: checkedFiles }, text: `${text}${sum}\n` })
  },
})

const canActivate = ({ refusal, findings: found }: CheckResult): boolean =>
  refusal === null && found.every(({ severity }) => severity !== 'error')

function findingLines(
  { findings: found }: CheckResult,
  dir: string,
  policies: Readonly<Record<string, string>>,
  paint: Paint,
): string {
  return found
    .map(({ at, severity, ...finding }) =>
      findingLine(
        { at: withPath(at, dir, policies), ...finding },
        severity === 'error' ? paint.bad('error') : paint.warn('warning'),
      ),
    )
    .join('')
}

type Finding = { readonly at: string; readonly message: string; readonly hint?: string | undefined }

const findingLine = ({ at, message, hint }: Finding, what: string): string =>
  `${inline(at)}: ${what}: ${inline(message)}${hint === undefined ? '' : ` (${inline(hint)})`}\n`

export const warningLines = (warnings: readonly Finding[], paint: Paint): string =>
  warnings.map((warning) => findingLine(warning, paint.warn('warning'))).join('')

function verdict(checked: CheckResult, paint: Paint, beside = 0): string {
  if (checked.refusal !== null) return `${paint.bad('refused')}: ${inline(checked.refusal.detail)}\n`
  if (!canActivate(checked)) return `${paint.bad('these policies can be stored but not put in force')}\n`
  const warnings = checked.findings.length + beside
  return `${paint.good('these policies can be put in force')}${warnings === 0 ? '' : `; warnings: ${warnings}`}\n`
}

function showFile(path: string, checked: CheckResult, paint: Paint): string {
  const { results, refusal } = checked
  const failed = results.filter(({ passed }) => !passed)
  const counted =
    refusal === null ? `${results.length - failed.length} of ${results.length} as expected` : 'not run'
  return `${paint.bold(inline(path))}  ${counted}\n${failed.map((result) => showFailed(result, paint)).join('')}`
}

/** The expected and the actual decision of a failed case, one below the other. */
function showFailed({ description, differs, expected, got }: CaseResult, paint: Paint): string {
  const rows = [
    ['expected', outcomeText(expected)],
    ['got', outcomeText(got)],
    ...(got.unasked === undefined ? [] : [['', `the decision was made before \`${got.unasked}\` was asked`]]),
    ['differs in', differs.join(', ')],
  ]
  return `  ${paint.bad('FAIL')}  ${inline(description)}\n${columns(rows, '        ')}`
}

type CaseOutcome = Partial<Pick<CaseResult['got'], 'policies' | 'code' | 'reason'>> & {
  readonly effect: string
  readonly plan?:
    | { readonly tier: string; readonly egress: string; readonly hosts?: readonly string[] | undefined }
    | null
    | undefined
}

const outcomeText = ({
  effect,
  code,
  policies,
  reason,
  plan,
}: { [K in keyof CaseOutcome]: CaseOutcome[K] | undefined }): string =>
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
