// Both commands start as what they are, from their path alone: without a first line of their own a shell would read them, word by word.

import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { expect, test } from 'vitest'
import pkg from '../../package.json' with { type: 'json' }

test.each(Object.entries(pkg.bin))('%s --help', (name, path) => {
  const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` }
  const { status, stdout, stderr } = spawnSync(`./${path}`, ['--help'], {
    env,
    encoding: 'utf8',
    timeout: 20_000,
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toContain(name)
})
