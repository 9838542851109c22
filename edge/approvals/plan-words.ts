// A plan in sentences for approvers: where the call runs, what it can reach and its limits. Pure.

import type { Plan, ProcessPlan, SkillPlan } from '../../shared/plan/plan.ts'
import { quoted } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'
import { interprets, programOf } from '../tools/interpreters.ts'

/**
 * Masks secrets in the parts of a plan that an agent can name. Each text is masked alone, because a match that spans several texts would
 * hide our words between them.
 */
export function shownPlan(plan: Plan, redaction: Redaction): Plan {
  if (plan.tier === 'A') return plan // an agent names nothing in it
  const shown = (text: string): string => String(redaction.of(text))
  const { egress, executor, files, credentials } = plan
  return {
    ...plan,
    executor: { ...executor, argv: executor.argv.map(shown) },
    egress: { ...egress, hosts: egress.hosts.map(shown) },
    ...(credentials === undefined
      ? {}
      : { credentials: credentials.map((one) => ({ ...one, host: shown(one.host) })) }),
    ...(files === undefined ? {} : { files: files.map((one) => ({ ...one, path: shown(one.path) })) }),
  }
}

export function planInWords(plan: Plan): string {
  if (plan.tier === 'A') {
    const { fuel, timeout_ms } = plan.limits
    return `${reachInWords(plan)}, for ${Math.ceil(timeout_ms / 1000)} s and ${fuel.toLocaleString('en')} units of fuel at most`
  }
  const { timeout_ms, net_bytes } = plan.limits
  const relayed = plan.egress.mode === 'strict' && plan.egress.hosts.length > 0 && net_bytes !== undefined
  const traffic = relayed
    ? ` and ${Math.ceil(net_bytes / 1024 ** 2).toLocaleString('en')} MiB of traffic`
    : ''
  return `${reachInWords(plan)}${filesInWords(plan)}${plan.outputs === true ? ', keeping the files that it leaves' : ''}, for ${Math.ceil(timeout_ms / 1000)} s${traffic} at most${interpreterInWords(plan)}`
}

/** The command line alone doesn't show what it does: the approver has to read the arguments as a program. */
function interpreterInWords({ executor: { argv } }: ProcessPlan): string {
  const does = interprets(argv)
  return does === undefined ? '' : `. ${quoted(programOf(argv))} is an interpreter: ${does}`
}

/** Names each file with its digest, because the yes is to these bytes. */
const filesInWords = ({ files = [] }: ProcessPlan): string =>
  files.length === 0
    ? ''
    : `, with files that the agent brings: ${files.map(({ path, bytes, sha256 }) => `\`${quoted(path)}\` (${bytes} bytes, sha256 ${sha256})`).join(', ')}`

/** Where the call runs and what it can reach. */
export function reachInWords(plan: Plan): string {
  if (plan.tier === 'A') return skillInWords(plan)
  const { tier, egress, profile, secrets, credentials = [], workspace } = plan
  const where =
    tier === 'C' ? 'in an isolated sandbox (tier C)' : 'as a limited process on the worker (tier B)'
  const network =
    egress.mode !== 'strict'
      ? 'with the network of the worker'
      : egress.hosts.length === 0
        ? 'without network'
        : `with network to ${egress.hosts.join(', ')} only`
  const folder =
    workspace === 'run' ? 'in the folder of its run' : 'in a folder of its own that is thrown away'
  const given = secrets.length === 0 ? '' : `, with the secrets ${secrets.join(', ')}`
  const added = credentials
    .map(
      ({ secret, host, tls }) =>
        `, with the secret ${secret} added to what it asks of ${host}${tls === undefined ? '' : ', whose TLS our proxy reads'}`,
    )
    .join('')
  const seen = profile === undefined ? '' : ` with what the profile ${profile} adds`
  return `${where}${seen}, ${network}${added}${given}, ${folder}`
}

/** Names the skill with its digest, because the publisher chooses the name. */
function skillInWords({ executor, egress, secrets, credentials = [] }: SkillPlan): string {
  const { skill, version, digest, tool, capabilities, methods = [], kv = [], channels = [] } = executor
  const plain = capabilities.filter((name) => name === 'log' || name === 'clock' || name === 'random')
  const reach = [
    egress.hosts.length === 0
      ? 'without network'
      : `with requests (${methods.join(', ')}) to ${egress.hosts.join(', ')} only`,
    ...credentials.map(({ secret, host }) => `with the secret ${secret} added to what it asks of ${host}`),
    ...(secrets.length === 0 ? [] : [`with the secrets ${secrets.join(', ')}`]),
    ...(kv.length === 0 ? [] : [`with its storage${kv.includes('') ? '' : ` under ${kv.join(', ')}`}`]),
    ...(channels.length === 0 ? [] : [`posting to ${channels.join(', ')}`]),
    plain.length === 0 ? 'with nothing else of its host' : `with ${plain.join(', ')} of its host`,
  ]
  return `in an isolate of the edge (tier A), \`${tool}\` of the skill \`${skill}\` ${version} (sha256 ${digest}), ${reach.join(', ')}`
}
