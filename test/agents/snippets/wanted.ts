// The tool call that the scripted models of the snippets want.

export const WANTED = { id: 'call_1', tool: 'text_stats', args: { text: 'who signs, answers' } } as const
