// Promise: the folder of a run outlives a restart of its worker, and is reported as lost after that.

import { expect, test } from 'vitest'
import { folderGone } from '../../../edge/call/shared-folder.ts'
import { LIMITS } from '../../../shared/limits.ts'

test('a run’s folder is lost when its worker was silent for `folder_silence_ms`, which is five minutes', () => {
  const seen = 1_800_000_000_000
  expect(LIMITS.folder_silence_ms).toBe(300_000)
  expect(folderGone(seen, seen)).toBeUndefined()
  expect(folderGone(seen, seen + 299_999)).toBeUndefined()
  expect(folderGone(seen, seen + 300_000)).toMatch(/has sent no heartbeat for 300 s.*create a new run/)
  expect(folderGone(null, seen)).toMatch(/no longer serves this pool.*create a new run/)
})
