// Requests about a call: to propose it in an existing run or a new one, or only to learn how it
// would be decided.

import { z } from 'zod'
import { sha256 } from '../bytes/json.ts'
import { CallOrigin } from '../evidence/origin.ts'
import { Name, ToolName } from '../fields.ts'
import { FileRefs, InputFiles } from '../plan/call-files.ts'
import { RunSpec } from './runs.ts'

const CallFields = z.strictObject({ tool: ToolName, args: z.record(z.string(), z.unknown()) })
const reason = CallOrigin.shape.reason.meta({
  description:
    'What the agent is doing and why, in its own words. Approvers see it, marked as unverified; the journal and the attestation contain it, with secrets masked. It is not part of what is decided, so policies and the `Idempotency-Key` ignore it.',
  examples: ['The customer asked for the refund of a duplicate order.'],
})
/** `files` were uploaded to the run before. Approval, grant and attestation cover their digests. */
export const ProposedCall = CallFields.extend({
  reason,
  files: FileRefs.optional().meta({
    description:
      'Input files for a tool with `input_files`: files that were uploaded to the run before, each with its path below `/input`.',
    examples: [[{ path: 'in/names.txt', sha256: sha256('') }]],
  }),
})
/** The proposal creates the run, so no file can have been uploaded to it. */
export const ProposedCallInNewRun = CallFields.extend({
  reason,
  run: RunSpec.optional(),
  files: z
    .never(
      'need an existing run: create one with `POST /v1/runs`, upload the files, and propose the call there',
    )
    .optional()
    .meta({ description: 'Not allowed: files belong to a run, and this request creates a new one.' }),
})

/**
 * A hypothetical call. An operator names the agent; an agent asks for itself. Its files are
 * described and need not exist. It has no reason, because a decision doesn't depend on one.
 */
export const HypotheticalCall = ProposedCallInNewRun.omit({ reason: true }).extend({
  agent: Name.optional(),
  files: InputFiles.optional(),
})
