// The worker's log: one line per event, as text for people or, with `--json`, as JSON for machines.
// Callers log ids, codes and numbers; never arguments, output or secrets (V02).

export type Fields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>

export type Log = {
  readonly say: (msg: string, fields?: Fields) => void
  /** For events that an operator should look at. */
  readonly warn: (msg: string, fields?: Fields) => void
}

/**
 * Values outside this set are quoted: details come from the wire and could break or forge a line.
 */
const PLAIN = /^[\x21\x23-\x3c\x3e-\x7e]+$/
const formatValue = (value: unknown): string => {
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return PLAIN.test(text) ? text : JSON.stringify(text)
}

const textLine = (level: string, msg: string, fields: Fields): string => {
  const rest = Object.entries(fields).flatMap(([key, value]) =>
    value === undefined ? [] : [`  ${key}=${formatValue(value)}`],
  )
  return `${new Date().toISOString().slice(11, 23)} ${level === 'warn' ? '! ' : ''}${msg}${rest.join('')}`
}

const jsonLine = (level: string, msg: string, fields: Fields): string =>
  JSON.stringify({ at: new Date().toISOString(), level, msg, ...fields })

export function openLog(json: boolean, write: (line: string) => void = (line) => console.log(line)): Log {
  const format = json ? jsonLine : textLine
  return {
    say: (msg, fields = {}) => write(format('info', msg, fields)),
    warn: (msg, fields = {}) => write(format('warn', msg, fields)),
  }
}
