// Promise: both commands can be started by their path alone, which needs a `#!` line; without one a
// shell would run them.

import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import pkg from '../../package.json' with { type: 'json' }

test.each(Object.entries(pkg.bin))('`%s --help` works when started by its path', (name, path) => {
  const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` }
  const { status, stdout, stderr } = spawnSync(`./${path}`, ['--help'], {
    env,
    encoding: 'utf8',
    timeout: 20_000,
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toContain(name)
})
