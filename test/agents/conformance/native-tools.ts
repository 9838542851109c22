// The tools that the conformance suite calls, as tools of a tenant: programs that a worker runs.

import type { Fixtures } from '../../support/fixtures.ts'
import { schemaWith } from './schema.ts'

type Spec = NonNullable<Parameters<Fixtures['tool']>[0]>

const NOTHING = { type: 'object', additionalProperties: false }
const data = Buffer.from('some bytes').toString('base64')

/** Prints a result of MCP. */
const returns = (result: object): Spec => ({
  input_schema: NOTHING,
  result: 'mcp',
  executor: { argv: ['printf', '%s', JSON.stringify(result)] },
})
const says = (text: string, input_schema: Record<string, unknown> = NOTHING): Spec => ({
  input_schema,
  executor: { argv: ['printf', '%s', text] },
})
/** Runs a fixed shell script with the given words. */
const script = (
  source: string,
  input_schema: Record<string, unknown> = NOTHING,
  words: string[] = [],
): Spec => ({
  input_schema,
  executor: { argv: ['sh', '-c', source, 'sh', ...words] },
})
const taking = (
  properties: Record<string, object>,
  required: readonly string[],
): Record<string, unknown> => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const TEXT = { type: 'string', maxLength: 200 }
const resource = (uri: string) => ({
  type: 'resource',
  resource: { uri, mimeType: 'text/plain', text: 'the text of a resource' },
})

export const NATIVE_TOOLS: Readonly<Record<string, Spec>> = {
  test_simple_text: says('a simple text'),
  test_image_content: returns({ content: [{ type: 'image', data, mimeType: 'image/png' }] }),
  test_audio_content: returns({ content: [{ type: 'audio', data, mimeType: 'audio/wav' }] }),
  test_embedded_resource: returns({ content: [resource('test://embedded-resource')] }),
  test_multiple_content_types: returns({
    content: [
      { type: 'text', text: 'several blocks' },
      { type: 'image', data, mimeType: 'image/png' },
      resource('test://mixed-content-resource'),
    ],
  }),
  test_tool_with_logging: script('echo one >&2; sleep 0.05; echo two >&2; echo done'),
  test_error_handling: returns({
    content: [{ type: 'text', text: 'the tool reports an error' }],
    isError: true,
  }),
  // Output is shown at most once a second.
  test_tool_with_progress: script('for i in 0 50 100; do echo "$i of 100" >&2; sleep 1.05; done; echo done'),
  test_streaming_elicitation: says('nobody was asked'),
  test_logging_tool: script('echo a line >&2; echo done'),
  test_trigger_tool_change: says('the list of tools is as it was'),
  greet: {
    input_schema: taking({ name: TEXT }, ['name']),
    executor: { argv: ['sed', 's/.*/Hello, &!/'], stdin: { arg: 'name' } },
  },
  slow_compute: script(
    'sleep "$1"; echo computed',
    taking({ seconds: { type: 'integer', minimum: 0, maximum: 60 }, label: TEXT }, ['seconds']),
    ['{seconds}'],
  ),
  failing_job: script('sleep 0.5; echo the job fails >&2; exit 1'),
  protocol_error_job: script('sleep 0.5; echo the job breaks >&2; exit 1'),
  confirm_delete: says('nothing was deleted', taking({ filename: TEXT }, ['filename'])),
  multi_input: says('nobody was asked'),
  test_tool_with_task: says('nobody was asked'),
  json_schema_2020_12_tool: says('accepted', schemaWith({})),
}
