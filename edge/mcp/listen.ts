// subscriptions/listen: a stream that stays open and reports changes of the list of tools and of
// tasks. Delivery is best effort: a client
// that misses a report reads the list or the task again.

import { randomUUID } from 'node:crypto'
import { LIMITS } from '../../shared/limits.ts'
import { tenantObject } from '../bindings.ts'
import { runOwner } from '../call/run.ts'
import type { FoundCall } from '../run/find-run.ts'
import type { StreamPosition } from '../run/output-subscribers.ts'
import type { McpContext } from './context.ts'
import { isObject, type McpRequest } from './envelope.ts'
import { answerHeld, type LastMessage } from './held-answer.ts'
import { META } from './protocol.ts'
import { errorAnswer, invalidParams, notification, resultFor, resultMessage } from './rpc.ts'
import { callOfTask, detailedTask } from './tasks.ts'
import { toolListOf } from './tool-list.ts'

/** Less than the lifetime of a slot. */
const RENEW_MS = 15_000

type Task = { readonly id: string; readonly found: FoundCall; position: StreamPosition }
type Topics = { readonly tools: boolean; readonly tasks: readonly Task[] }

export async function listen(context: McpContext, request: McpRequest): Promise<Response> {
  const { env, agent } = context
  const topics = readTopics(context, request)
  if (topics === undefined)
    return errorAnswer(
      request.id,
      invalidParams('`notifications` must be an object, and the request must accept `text/event-stream`'),
    )
  const slot = { stream: randomUUID(), whose: `agent ${agent.name} listens`, approval: null }
  const tenant = tenantObject(env, agent.tenant)
  const renew = async (): Promise<boolean> => (await tenant.follow(slot)).ok
  const isOpen = { value: true }
  const close = async (): Promise<void> => {
    isOpen.value = false
    await tenant.unfollow(slot.stream)
  }
  const subscription = { [META.subscription]: request.id }
  async function* messages(): AsyncGenerator<string, LastMessage, void> {
    const admitted = await renew() // beyond the limit of open streams nothing is reported
    const { tools, tasks } = admitted ? (topics ?? NO_TOPICS) : NO_TOPICS
    yield notification('notifications/subscriptions/acknowledged', {
      notifications: {
        ...(tools ? { toolsListChanged: true } : {}),
        ...(tasks.length === 0 ? {} : { taskIds: tasks.map(({ id }) => id) }),
      },
      _meta: subscription,
    })
    if (admitted) yield* changes(context, { tools, tasks }, { subscription, isOpen, renew })
    return { message: resultMessage(request.id, resultFor('modern', { _meta: subscription })) }
  }
  return answerHeld(context, {
    id: request.id,
    messages: messages(),
    gone: async () => undefined,
    released: close,
  })
}

const NO_TOPICS: Topics = { tools: false, tasks: [] }

/** The requested notifications. An id of another agent's task is ignored like an unknown one. */
function readTopics(context: McpContext, { params, meta }: McpRequest): Topics | undefined {
  const { notifications } = params
  if (!isObject(notifications) || !context.accepted.stream) return undefined
  const { toolsListChanged, taskIds } = notifications
  const ids = meta.tasks && Array.isArray(taskIds) ? taskIds.slice(0, LIMITS.mcp_listened_tasks) : []
  const tasks = [...new Set(ids)].flatMap((id) => {
    const found = callOfTask(context, id)
    return found.ok ? [{ id: String(id), found: found.value, position: START }] : []
  })
  return { tools: toolsListChanged === true, tasks }
}

const START: StreamPosition = { attempt: 0, stdout: 0, stderr: 0, state: null }

type Open = {
  readonly subscription: Readonly<Record<string, unknown>>
  readonly isOpen: { readonly value: boolean }
  readonly renew: () => Promise<boolean>
}

/** Ends when the stream is closed, its slot is lost, or the caller may no longer read. */
async function* changes(
  context: McpContext,
  { tools, tasks }: Topics,
  { subscription, isOpen, renew }: Open,
): AsyncGenerator<string, void, void> {
  const { agent } = context
  let listed = toolListOf(context.directory, agent).digest
  let [checked, renewed] = [Date.now(), Date.now()]
  const following = new Map(tasks.map((task) => [task.id, nextOf(context, task)]))
  while (isOpen.value) {
    const tick = Promise.withResolvers<undefined>()
    const timer = setTimeout(() => tick.resolve(undefined), LIMITS.mcp_heartbeat_ms)
    const change = await Promise.race([tick.promise, ...following.values()])
    clearTimeout(timer)
    if (!isOpen.value) return
    if (change !== undefined) {
      if (change.goesOn) following.set(change.task.id, nextOf(context, change.task))
      else following.delete(change.task.id)
      if (change.params !== null)
        yield notification('notifications/tasks', { ...change.params, _meta: subscription })
      // A task that changes all the time must not delay the renewal.
      if (Date.now() - checked < LIMITS.mcp_heartbeat_ms) continue
    }
    checked = Date.now()
    const caller = await context.stillCaller()
    if (caller === null) return
    const { digest } = toolListOf(caller.directory, caller.agent)
    if (tools && digest !== listed)
      yield notification('notifications/tools/list_changed', { _meta: subscription })
    listed = digest
    if (Date.now() - renewed < RENEW_MS) continue
    renewed = Date.now()
    if (!(await renew())) return
  }
}

type TaskChange = {
  readonly task: Task
  readonly params: Readonly<Record<string, unknown>> | null
  readonly goesOn: boolean
}

/** The next change of a task's state; `params` is null if nothing changed in time. */
async function nextOf(context: McpContext, task: Task): Promise<TaskChange> {
  const { run, n } = task.found
  const agent = runOwner(context.agent)
  const update = await run.nextOutput(agent, n, null, task.position, RENEW_MS)
  if (!update.ok) return { task, params: null, goesOn: false }
  const { position, changed, end } = update.value
  const call = changed ? await run.read(agent, n, 0) : undefined
  const params = call?.ok === true ? detailedTask(context, task.id, call.value) : null
  return { task: { ...task, position }, params, goesOn: end === null && params?.['status'] !== 'completed' }
}
