// Promise: of what jco writes around a component nothing needs what an isolate has not, or has at a price.

import { expect, test } from 'vitest'
import { liftInlineModules } from '../../../../edge/skills/transpiler/inline-modules.ts'
import { component, generatedOf } from '../../../support/skills/skill.ts'

const texts = (glue: string): string[] =>
  liftInlineModules('component.js', glue).map(([name, bytes]) => `${name}: ${Buffer.from(bytes).toString()}`)

test('Node’s `process`, which the runtime would load whole, is not looked for', async () => {
  const looks = /\bprocess\b[?.]/
  const glue = (await generatedOf(await component())).get('component.js') ?? ''
  expect(glue).toMatch(looks)
  expect(texts(glue)).toEqual([expect.not.stringMatching(looks)])
})

test('a module in a list of bytes is a file beside it', () => {
  expect(texts('const a = new WebAssembly.Module(new Uint8Array([97, 98]))')).toEqual([
    "component.js: import glue0 from './glue0.wasm';\nconst a = glue0",
    'glue0.wasm: ab',
  ])
})
