// Owns how the worker is run beside the stack: its home, its configuration, its enrolment and its process. As root it becomes the
// unprivileged worker user before its first line runs; no secret is on a command line.

import { spawn } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { err, ok, type Result } from '../shared/result.ts'
import { pdeathsig, type Spec } from './child.ts'
import { workerUser } from './packages.ts'
import { redisUrl } from './redis.ts'
import { type Refusal, ROOT, type Secrets, type State, TENANT, writePrivate } from './state.ts'

export type WorkerAt = {
  readonly url: string
  readonly redisPort: number
  readonly concurrency: number
  /** Private addresses that the egress proxy may reach; for tests against a server of their own. */
  readonly private_hosts: readonly string[]
}
