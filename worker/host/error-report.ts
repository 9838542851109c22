// Reduces an internal error to what may be logged: its code and the frames in our code. Its message
// is left out, because it may quote an argument of a call (V02).

type ErrorReport = { readonly code: string; readonly at: string }

export function errorReport(error: unknown): ErrorReport {
  if (!(error instanceof Error)) return { code: 'unknown', at: '' }
  const { name, message, stack = '' } = error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : name
  const start = stack.indexOf(message)
  // The message was changed after the throw, so the stack can’t be split from it.
  if (start < 0) return { code, at: '' }
  const frames = stack.slice(start + message.length).split('\n')
  return {
    code,
    at: frames
      .map((frame) => frame.trim())
      .filter((frame) => frame.startsWith('at '))
      .join('; '),
  }
}
