// Promise: the self-hosted stack serves the same bundle that wrangler deploys. The stack bundles
// with esbuild, which is faster than wrangler.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { bundle } from '../../infra/edge-build.ts'
import { bundleEdge } from '../../infra/edge-bundle.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-bundles-'))
afterAll(() => rmSync(folder, { recursive: true }))

/**
 * The modules that workerd is given, by name. wrangler adds a README, and a source map that the
 * last line of `main.js` names.
 */
const modulesIn = (dir: string): ReadonlyMap<string, string> =>
  new Map(
    readdirSync(dir)
      .filter((name) => !/^README\.md$|\.map$/.test(name))
      .sort()
      .map((name) => [
        name,
        readFileSync(join(dir, name), 'latin1').replace(/\/\/# sourceMappingURL=main\.js\.map\n$/, ''),
      ]),
  )

test('the bundle that the self-hosted stack serves has the modules of wrangler’s bundle, byte for byte', async () => {
  const [own, wranglers] = [join(folder, 'own'), join(folder, 'wrangler')]
  const made = await bundleEdge(own)
  if (!made.ok) throw new Error(made.error)
  const deployed = bundle([], wranglers)
  if (!deployed.ok) throw new Error(deployed.error)
  const [ours, theirs] = [modulesIn(own), modulesIn(wranglers)]
  expect([...ours.keys()]).toEqual([...theirs.keys()])
  expect(ours.size).toBeGreaterThan(20)
  expect([...ours].filter(([name, bytes]) => theirs.get(name) !== bytes).map(([name]) => name)).toEqual([])
})

test('a bundle names sources, policies and migrations as its inputs', async () => {
  const made = await bundleEdge(join(folder, 'inputs'))
  if (!made.ok) throw new Error(made.error)
  const endings = new Set(
    made.value
      .filter((path) => !path.startsWith('node_modules/'))
      .map((path) => path.slice(path.lastIndexOf('.'))),
  )
  expect(endings).toEqual(new Set(['.ts', '.tsx', '.js', '.cedar', '.cedarschema', '.md', '.sql', '.json']))
})
