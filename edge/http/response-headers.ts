// The headers of every answer, whatever it is: no cache keeps it, no browser guesses what it might be instead.

export const headersOf = (type: string) => ({
  'content-type': type,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
})

/** Of bytes that an agent or a tool wrote: they are saved, never shown, and can do nothing if a browser shows them all the same. */
const fileHeaders = (path: string) => ({
  ...headersOf('application/octet-stream'),
  'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(path.split('/').at(-1) ?? '').replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`)}`,
  'content-security-policy': "default-src 'none'; sandbox",
})

export const fileAnswer = ({ path, bytes }: { path: string; bytes: Uint8Array }): Response =>
  new Response(bytes as Uint8Array<ArrayBuffer>, { headers: fileHeaders(path) }) // RPC makes its own buffers
