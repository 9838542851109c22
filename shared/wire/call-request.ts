// What is asked of the edge about a call: that it be made, in a run that there is or in a new one, or only what would come of it.

import { z } from 'zod'
import { sha256 } from '../bytes/json.ts'
import { Name, ToolName } from '../fields.ts'
import { FileRefs, InputFiles } from '../plan/call-files.ts'
import { RunSpec } from './runs.ts'

const Asked = z.strictObject({ tool: ToolName, args: z.record(z.string(), z.unknown()) })
/** `files`: put into the run before, each by its digest; the approval, the grant and the attestation are about these bytes. */
export const ProposedCall = Asked.extend({
  files: FileRefs.optional().meta({
    description:
      'What it brings to a tool with `input_files`: bytes that were put into the run before, and where they lie below `/input`.',
    examples: [[{ path: 'in/names.txt', sha256: sha256('') }]],
  }),
})
/** Its run is there only once it is proposed, so nothing can be put into it before. */
export const ProposedCallInNewRun = Asked.extend({
  run: RunSpec.optional(),
  files: z
    .never(
      'a call brings files of its run: make one with `POST /v1/runs`, put them, and propose the call there',
    )
    .optional()
    .meta({ description: 'None: files belong to a run, and this call makes its own.' }),
})

/** A call that is only supposed. An operator names the agent; an agent is itself. Its files need not be anywhere: it says what they are. */
export const SupposedCall = ProposedCallInNewRun.extend({
  agent: Name.optional(),
  files: InputFiles.optional(),
})
