// A thread that verifies exported runs, one object after the other. verify-export.ts starts it and sends
// it the files of an object, each one answered by `null`, and then `null`, answered by the verdict.

import { parentPort, workerData } from 'node:worker_threads'
import type { Keys } from '../../shared/evidence/keys.ts'
import type { PartFile } from './verify-export.ts'
import { VerifiedObject } from './verify-object.ts'

const keys = workerData as Keys // `readKeys` has read them
let object = new VerifiedObject(keys)

parentPort?.on('message', (part: PartFile | null) => {
  if (part === null) {
    parentPort?.postMessage(object.finished())
    object = new VerifiedObject(keys)
    return
  }
  object.add(part.name, part.bytes)
  parentPort?.postMessage(null)
})
