// Owns what may be told of a fault of ours: its code and the places in our code, never its text. An error's text quotes what it failed on,
// and that may be an argument of a call (V02).

type Fault = { readonly code: string; readonly at: string }

export function faultOf(error: unknown): Fault {
  if (!(error instanceof Error)) return { code: 'unknown', at: '' }
  const { name, message, stack = '' } = error
  const code = 'code' in error && typeof error.code === 'string' ? error.code : name
  const told = stack.indexOf(message)
  if (told < 0) return { code, at: '' } // the text was changed since: what is text and what is place can't be told apart
  const places = stack.slice(told + message.length).split('\n')
  return {
    code,
    at: places
      .map((place) => place.trim())
      .filter((place) => place.startsWith('at '))
      .join('; '),
  }
}
