// Writes unexpected errors to the log, with the instance id that the caller received. Never logs
// the content of a request.

export function logError(instance: string, error: unknown): void {
  console.error(
    JSON.stringify({
      level: 'error',
      instance,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    }),
  )
}
