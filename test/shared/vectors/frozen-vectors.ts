// The frozen vectors of evidence. test/vectors/README.md describes them.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../../infra/state.ts'
import type { Vector } from '../../vectors/built.ts'

export const VECTORS = readFileSync(join(ROOT, 'test/vectors/evidence/vectors.jsonl'), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => JSON.parse(line) as Vector) // make.ts wrote it
