// The headers of every answer, whatever it is: no cache keeps it, no browser guesses what it might be instead.

export const headersOf = (type: string) => ({
  'content-type': type,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
})
