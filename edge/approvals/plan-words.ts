// A plan in words for approvers: where the call runs, what it can reach, and its limits. Pure.

import type { Plan, ProcessPlan, SkillPlan, UpstreamPlan } from '../../shared/plan/plan.ts'
import { isEdgePlan } from '../../shared/plan/plan.ts'
import { quoteReadable } from '../platform/visible-text.ts'
import type { Redaction } from '../secrets/redaction.ts'
import { interprets, programOf } from '../tools/interpreters.ts'

/**
 * Masks secrets in the texts of a plan that an agent chose. Each text is masked separately, because
 * a match across several texts would hide our words between them.
 */
export function shownPlan(plan: Plan, redaction: Redaction): Plan {
  if (isEdgePlan(plan)) return plan // it has no text that an agent chose
  const shown = (text: string): string => String(redaction.of(text))
  const { egress, executor, files, credentials } = plan
  return {
    ...plan,
    executor: { ...executor, argv: executor.argv.map(shown) },
    egress: { ...egress, hosts: egress.hosts.map(shown) },
    ...(credentials === undefined
      ? {}
      : { credentials: credentials.map((item) => ({ ...item, host: shown(item.host) })) }),
    ...(files === undefined ? {} : { files: files.map((file) => ({ ...file, path: shown(file.path) })) }),
  }
}

export function planInWords(plan: Plan): string {
  if (plan.tier === 'A') {
    const { fuel, timeout_ms } = plan.limits
    const seconds = Math.ceil(timeout_ms / 1000)
    return `${reachInWords(plan)}, for at most ${seconds} s and ${fuel.toLocaleString('en')} units of fuel`
  }
  if (plan.tier === 'M')
    return `${reachInWords(plan)}, for at most ${Math.ceil(plan.limits.timeout_ms / 1000)} s`
  const { timeout_ms, net_bytes } = plan.limits
  const relayed = plan.egress.mode === 'strict' && plan.egress.hosts.length > 0 && net_bytes !== undefined
  const traffic = relayed
    ? ` and ${Math.ceil(net_bytes / 1024 ** 2).toLocaleString('en')} MiB of traffic`
    : ''
  const outputs = plan.outputs === true ? ', keeping its output files' : ''
  const limits = `, for at most ${Math.ceil(timeout_ms / 1000)} s${traffic}`
  return `${reachInWords(plan)}${filesInWords(plan)}${outputs}${limits}${interpreterInWords(plan)}`
}

/**
 * Warns that the command line alone does not show what an interpreter does: its arguments are a
 * program.
 */
function interpreterInWords({ executor: { argv, mcp } }: ProcessPlan): string {
  if (mcp !== undefined) return '' // its arguments are an operator's
  const does = interprets(argv)
  return does === undefined ? '' : `. ${quoteReadable(programOf(argv))} is an interpreter: ${does}`
}

/** Names each file with its digest, because the answer is to these bytes. */
const filesInWords = ({ files = [] }: ProcessPlan): string =>
  files.length === 0
    ? ''
    : `, with input files from the agent: ${files.map(({ path, bytes, sha256 }) => `\`${quoteReadable(path)}\` (${bytes} bytes, sha256 ${sha256})`).join(', ')}`

/** Says in which sandbox the call runs and what it can reach. */
export function reachInWords(plan: Plan): string {
  if (plan.tier === 'A') return skillInWords(plan)
  if (plan.tier === 'M') return upstreamInWords(plan)
  const { tier, egress, profile, secrets, credentials = [], workspace } = plan
  const where =
    tier === 'C' ? 'in an isolated sandbox (tier C)' : 'as a limited process on the worker (tier B)'
  const network =
    egress.mode !== 'strict'
      ? 'with the network of the worker'
      : egress.hosts.length === 0
        ? 'without network'
        : `with network to ${egress.hosts.join(', ')} only`
  const folder = workspace === 'run' ? 'in the folder of its run' : 'in a temporary folder'
  const given = secrets.length === 0 ? '' : `, with the secrets ${secrets.join(', ')}`
  const added = credentials
    .map(
      ({ secret, host, tls }) =>
        `, with the secret ${secret} added to its requests to ${host}${tls === undefined ? '' : ', whose TLS our proxy decrypts'}`,
    )
    .join('')
  const additions = profile === undefined ? '' : ` with the additions of the profile ${profile}`
  return `${serverInWords(plan)}${where}${additions}, ${network}${added}${given}, ${folder}`
}

/** Names the server that a worker starts, and the accepted definition of its tool. */
function serverInWords({ executor: { argv, mcp } }: ProcessPlan): string {
  if (mcp === undefined) return ''
  const server = `the MCP server \`${mcp.upstream}\` (${quoteReadable(argv.join(' '))})`
  return mcp.method === 'tools/list'
    ? `the list of tools of ${server}, `
    : `${quoteReadable(mcp.tool)} of ${server} (definition sha256 ${mcp.definition}), `
}

/** Names the server by its address: nothing isolates what it does. */
function upstreamInWords({ executor, credentials = [] }: UpstreamPlan): string {
  const { upstream, url, tool, definition } = executor
  const given = credentials.map(({ secret, host }) => `, with the secret ${secret} sent to ${host}`).join('')
  return `at ${new URL(url).origin} (tier M), ${quoteReadable(tool)} of the MCP server \`${upstream}\` (definition sha256 ${definition})${given}`
}

/** Names the skill with its digest, because the publisher chooses the name. */
function skillInWords({ executor, egress, secrets, credentials = [] }: SkillPlan): string {
  const { skill, version, digest, tool, capabilities, methods = [], kv = [], channels = [] } = executor
  const plain = capabilities.filter((name) => name === 'log' || name === 'clock' || name === 'random')
  const reach = [
    egress.hosts.length === 0
      ? 'without network'
      : `with requests (${methods.join(', ')}) to ${egress.hosts.join(', ')} only`,
    ...credentials.map(({ secret, host }) => `with the secret ${secret} added to its requests to ${host}`),
    ...(secrets.length === 0 ? [] : [`with the secrets ${secrets.join(', ')}`]),
    ...(kv.length === 0 ? [] : [`with its storage${kv.includes('') ? '' : ` under ${kv.join(', ')}`}`]),
    ...(channels.length === 0 ? [] : [`posting to ${channels.join(', ')}`]),
    plain.length === 0 ? 'without other host functions' : `with the host functions ${plain.join(', ')}`,
  ]
  return `in an isolate of the edge (tier A), \`${tool}\` of the skill \`${skill}\` ${version} (sha256 ${digest}), ${reach.join(', ')}`
}
