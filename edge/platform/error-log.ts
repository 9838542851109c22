// What the edge writes to its log: bugs, by the number that the caller was given. Never a request's content.

export function logError(instance: string, error: unknown): void {
  console.error(
    JSON.stringify({
      level: 'error',
      instance,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    }),
  )
}
