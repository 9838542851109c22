// Writes unexpected errors to the log, with what they are about: a request's id, a tenant, a
// secret's name. Never logs the content of a request.

type Subject = { readonly [K in 'request_id' | 'tenant' | 'secret']?: string }

export function logError(error: unknown, subject: Subject = {}): void {
  console.error(
    JSON.stringify({
      level: 'error',
      ...subject,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    }),
  )
}
