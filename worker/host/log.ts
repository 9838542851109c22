// Owns what the worker says: one line for one event, for people or, with `--json`, for machines.
// Callers pass ids, codes and numbers; arguments, output and secrets never come here (V02).

export type Fields = Readonly<
  Record<string, string | number | boolean | null | undefined | readonly string[]>
>

export type Log = {
  readonly say: (msg: string, fields?: Fields) => void
  /** Something that a person should look at. */
  readonly warn: (msg: string, fields?: Fields) => void
}

/** A value that would break the line, or be mistaken for two, is quoted: details come from the wire and may hold anything. */
const PLAIN = /^[\x21\x23-\x3c\x3e-\x7e]+$/
const shown = (value: unknown): string => {
  const text = Array.isArray(value) ? value.join(',') : String(value)
  return PLAIN.test(text) ? text : JSON.stringify(text)
}

const forPeople = (level: string, msg: string, fields: Fields): string => {
  const told = Object.entries(fields).flatMap(([key, value]) =>
    value === undefined ? [] : [`  ${key}=${shown(value)}`],
  )
  return `${new Date().toISOString().slice(11, 23)} ${level === 'warn' ? '! ' : ''}${msg}${told.join('')}`
}

const forMachines = (level: string, msg: string, fields: Fields): string =>
  JSON.stringify({ at: new Date().toISOString(), level, msg, ...fields })

export function openLog(json: boolean, write: (line: string) => void = (line) => console.log(line)): Log {
  const form = json ? forMachines : forPeople
  return {
    say: (msg, fields = {}) => write(form('info', msg, fields)),
    warn: (msg, fields = {}) => write(form('warn', msg, fields)),
  }
}
