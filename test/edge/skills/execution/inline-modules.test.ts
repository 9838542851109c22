// Promise: the rewritten glue of jco needs nothing that an isolate lacks or that is slow to load.

import { expect, test } from 'vitest'
import { liftInlineModules } from '../../../../edge/skills/transpiler/inline-modules.ts'
import { component, generatedOf } from '../../../support/skills/skill.ts'

const texts = (glue: string): string[] =>
  liftInlineModules('component.js', glue).map(([name, bytes]) => `${name}: ${Buffer.from(bytes).toString()}`)

test('jco’s glue does not read Node’s `process`, which the runtime would load as a whole', async () => {
  const looks = /\bprocess\b[?.]/
  const glue = (await generatedOf(await component())).get('component.js') ?? ''
  expect(glue).toMatch(looks)
  expect(texts(glue)).toEqual([expect.not.stringMatching(looks)])
})

test('a module that jco’s glue contains as a byte list becomes a file', () => {
  expect(texts('const a = new WebAssembly.Module(new Uint8Array([97, 98]))')).toEqual([
    "component.js: import glue0 from './glue0.wasm';\nconst a = glue0",
    'glue0.wasm: ab',
  ])
})
