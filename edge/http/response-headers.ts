// Headers of every response: no cache stores it, and no browser guesses another content type.

export const headersOf = (type: string) => ({
  'content-type': type,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
})

/** For server-sent events and other streams: a proxy must not collect them before it passes them on. */
export const streamHeaders = (type = 'text/event-stream') => ({
  ...headersOf(type),
  'x-accel-buffering': 'no',
})

/**
 * For bytes that an agent or a tool wrote: a browser saves them. One that shows them anyway runs no
 * script.
 */
const fileHeaders = (path: string) => ({
  ...headersOf('application/octet-stream'),
  'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(path.split('/').at(-1) ?? '').replace(/['()*]/g, (char) => `%${char.charCodeAt(0).toString(16)}`)}`,
  'content-security-policy': "default-src 'none'; sandbox",
})

export const fileResponse = ({ path, bytes }: { path: string; bytes: Uint8Array }): Response =>
  new Response(bytes as Uint8Array<ArrayBuffer>, { headers: fileHeaders(path) }) // RPC copied them, so no other view shares the buffer
