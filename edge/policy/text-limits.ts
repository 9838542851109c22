// Checks the size and nesting of policy texts before the engine parses them, and converts offsets
// into `file:line:column`. The engine recurses on a fixed stack and an overflow breaks it for good,
// so every text passes here first. This file reads tokens, not Cedar's grammar: a text that passes
// may still be invalid.

import type { FieldError } from '../../shared/failures.ts'
import { failure } from '../../shared/failures.ts'
import { LIMITS } from '../../shared/limits.ts'
import type { Err } from '../../shared/result.ts'
import { err } from '../../shared/result.ts'

/**
 * Comments, strings, connectives, brackets, separators, and everything else that makes an
 * expression deeper.
 */
const TOKEN =
  /\/\/[^\n\r]*|"(?:[^"\\]|\\[\s\S])*"?|&&|\|\||::|[()[\]{},;@]|\b(?:if|in|like|is|has|when|unless)\b|[<>=!]=?|[.+*-]/g
/**
 * We and the engine must agree on where a line ends, so other line ends and invisible characters
 * are refused.
 */
const CONTROL = /\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]/
const CLOSES: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' }

/** The number of mistakes that one answer lists. */
export const SHOWN = 20

/** A nested `if` costs the engine about as much as eight conditions. */
const CONDITIONS_OF_AN_IF = 8

type Level = { opened: string; here: number; deepest: number }

/**
 * One pass over a file's tokens. `here` is the depth of the current member of a list or
 * conjunction; the deepest member counts.
 */
class TextReader {
  /** Mistakes because of which the engine must not see the text. */
  readonly unfit: FieldError[] = []
  /** Names with characters that only look like others. */
  readonly lookAlikes: FieldError[] = []
  statements = 0
  readonly #file: string
  readonly #text: string
  #levels: Level[] = [{ opened: '', here: 0, deepest: 0 }]
  #conditions = 0
  #tooDeep = false

  constructor(file: string, text: string) {
    this.#file = file
    this.#text = text
    const control = CONTROL.exec(text)
    if (control !== null) {
      this.unfit.push(
        this.#error(control.index, 'a control character', 'write line ends and tabs, and no others'),
      )
      return
    }
    let before = ''
    for (const { 0: token, index } of text.matchAll(TOKEN)) {
      if (token.startsWith('//')) continue
      this.#take(token, before, index)
      before = token
    }
  }

  #take(token: string, before: string, at: number): void {
    const level = this.#levels.at(-1)
    if (level === undefined) return
    if (this.#tooDeep && token !== ';') return // skip the rest of this policy
    if (token.startsWith('"')) {
      // All our names are plain ASCII.
      if (before === '::' && this.lookAlikes.length < SHOWN && !/^"[\x20-\x5b\x5d-\x7e]*"$/.test(token))
        this.lookAlikes.push(
          this.#error(
            at,
            `no name can contain the characters of ${token}`,
            'write it in plain ASCII, without escapes',
          ),
        )
    } else if (token === ';') this.#end()
    else if (token === ',' || token === '@') level.here = 0
    else if (token === '&&' || token === '||' || token === 'when' || token === 'unless')
      this.#condition(level, 1, at)
    else if (token === 'if') this.#condition(level, CONDITIONS_OF_AN_IF, at)
    else if ('([{'.includes(token)) this.#open(level, token, at)
    else if (CLOSES[token] !== undefined) this.#close(level, CLOSES[token])
    else if (token !== '::') this.#deeper(level, at)
  }

  #end(): void {
    this.statements++
    this.#levels = [{ opened: '', here: 0, deepest: 0 }]
    this.#conditions = 0
    this.#tooDeep = false
  }

  #condition(level: Level, weight: number, at: number): void {
    level.here = 0
    this.#conditions += weight
    if (this.#conditions > LIMITS.policy_conditions)
      this.#refuse(at, `more than ${LIMITS.policy_conditions} conditions in one policy`)
  }

  #open(level: Level, opened: string, at: number): void {
    this.#deeper(level, at)
    this.#levels.push({ opened, here: 0, deepest: 0 })
  }

  /** A closing bracket without an opening one is left for the engine to report. */
  #close(closed: Level, opener: string): void {
    if (closed.opened !== opener) return
    this.#levels.pop()
    const level = this.#levels.at(-1)
    if (level === undefined) return
    level.here += closed.deepest
    level.deepest = Math.max(level.deepest, level.here)
  }

  #deeper(level: Level, at: number): void {
    level.here++
    level.deepest = Math.max(level.deepest, level.here)
    this.#check(at)
  }

  #check(at: number): void {
    const depth = this.#levels.reduce((sum, { here }) => sum + here, 0)
    if (depth > LIMITS.policy_depth)
      this.#refuse(at, `nested deeper than ${LIMITS.policy_depth} levels; operators count as levels`)
  }

  #refuse(at: number, message: string): void {
    if (this.unfit.length < SHOWN) this.unfit.push(this.#error(at, message, 'split it into several policies'))
    this.#tooDeep = true
  }

  #error(at: number, message: string, hint: string): FieldError {
    return { at: place(this.#file, this.#text, at), message, hint }
  }
}

/**
 * Returns the mistakes because of which the engine must not see these files, and names with
 * look-alike characters.
 */
export function readTexts(files: Readonly<Record<string, string>>): {
  unfit: readonly FieldError[]
  lookAlikes: readonly FieldError[]
} {
  const readings = Object.entries(files).map(([file, text]) => new TextReader(file, text))
  const statements = readings.reduce((sum, reading) => sum + reading.statements, 0)
  const message = `the set has ${statements} policies, including the built-in ones; the maximum is ${LIMITS.policies}`
  const tooMany = statements > LIMITS.policies ? [{ at: 'policies', message }] : []
  return {
    unfit: [...tooMany, ...readings.flatMap(({ unfit }) => unfit)],
    lookAlikes: readings.flatMap(({ lookAlikes }) => lookAlikes),
  }
}

/** `file:line:column`, both from 1; `offset` counts UTF-16 units. */
export function place(file: string, text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n')
  return `${file}:${before.length}:${[...(before.at(-1) ?? '')].length + 1}`
}

/** The same for an offset in bytes, as the engine counts. */
export const bytePlace = (file: string, text: string, offset: number): string =>
  place(file, text, unitsIn(text, offset))
export const unitsIn = (text: string, bytes: number): number =>
  Buffer.from(text).toString('utf8', 0, bytes).length

export function invalidPolicies(errors: readonly FieldError[]): Err<ReturnType<typeof failure>> {
  const count =
    errors.length === 1
      ? 'one mistake'
      : errors.length < SHOWN
        ? `${errors.length} mistakes`
        : `${SHOWN} mistakes or more`
  return err(failure('invalid_policy', `${count} in the policies`, errors.slice(0, SHOWN)))
}
