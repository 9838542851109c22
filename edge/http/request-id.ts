// A random id for each request: in the header `Request-Id` of its answer, in its problem document,
// and in the log line of its error. Ids that callers send are not used, because they could repeat.

const ids = new WeakMap<Request, string>()

export function requestId(request: Request): string {
  const known = ids.get(request)
  if (known !== undefined) return known
  const id = crypto.randomUUID()
  ids.set(request, id)
  return id
}

export function withRequestId(request: Request, response: Response): Response {
  response.headers.set('request-id', requestId(request))
  return response
}
