// Policies as text, before and beside the engine: how much of it there is, how deeply it nests, and where in which file
// something stands. The engine recurses on a stack of fixed size and dies of what is too deep, so nothing reaches it unread.
// It knows tokens, not Cedar's grammar: what it lets through may still be refused.

import type { FieldError } from '../shared/failures.ts'
import { failure } from '../shared/failures.ts'
import { LIMITS } from '../shared/limits.ts'
import type { Err } from '../shared/result.ts'
import { err } from '../shared/result.ts'

/** A comment, a text, a joint of conditions, a bracket, a separator, or whatever else makes an expression deeper. */
const TOKEN = /\/\/[^\n\r]*|"(?:[^"\\]|\\[\s\S])*"?|&&|\|\||::|[()[\]{},;@]|\b(?:if|in|like|is|has|when|unless)\b|[<>=!]=?|[.+*-]/g
/** Where a line ends is the engine's to say as much as ours: one kind of line end, and nothing else that is not to be seen. */
const CONTROL = /\r(?!\n)|[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]/
const CLOSES: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{' }

/** Mistakes that are listed; who mends these sees the next. */
export const SHOWN = 20

/** A branch inside a branch costs the engine about what eight conditions cost. */
const JOINTS_OF_A_BRANCH = 8

type Level = { opened: string; here: number; deepest: number }

/** One pass over one file's tokens. `here` counts what nests in the part of a list or conjunction being read; the deepest part counts. */
class Reading {
  /** What the engine may not be shown. */
  readonly unfit: FieldError[] = []
  /** Names that only look like the name of something. */
  readonly lookAlikes: FieldError[] = []
  statements = 0
  readonly #file: string
  readonly #text: string
  #levels: Level[] = [{ opened: '', here: 0, deepest: 0 }]
  #joints = 0
  #tooDeep = false

  constructor(file: string, text: string) {
    this.#file = file
    this.#text = text
    const control = CONTROL.exec(text)
    if (control !== null) {
      this.unfit.push(this.#error(control.index, 'a control character', 'write line ends and tabs, and no others'))
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
    if (this.#tooDeep && token !== ';') return // what follows is read with the next policy
    if (token.startsWith('"')) {
      // Names of ours are plain ASCII.
      if (before === '::' && this.lookAlikes.length < SHOWN && !/^"[\x20-\x5b\x5d-\x7e]*"$/.test(token))
        this.lookAlikes.push(this.#error(at, `nothing has a name like ${token}`, 'write it in plain ASCII, without escapes'))
    } else if (token === ';') this.#end()
    else if (token === ',' || token === '@') level.here = 0
    else if (token === '&&' || token === '||' || token === 'when' || token === 'unless') this.#joint(level, 1, at)
    else if (token === 'if') this.#joint(level, JOINTS_OF_A_BRANCH, at)
    else if ('([{'.includes(token)) this.#open(level, token, at)
    else if (CLOSES[token] !== undefined) this.#close(level, CLOSES[token])
    else if (token !== '::') this.#deeper(level, at)
  }

  #end(): void {
    this.statements++
    this.#levels = [{ opened: '', here: 0, deepest: 0 }]
    this.#joints = 0
    this.#tooDeep = false
  }

  #joint(level: Level, weight: number, at: number): void {
    level.here = 0
    this.#joints += weight
    if (this.#joints > LIMITS.policy_conditions) this.#refuse(at, `more than ${LIMITS.policy_conditions} conditions in one policy`)
  }

  #open(level: Level, opened: string, at: number): void {
    this.#deeper(level, at)
    this.#levels.push({ opened, here: 0, deepest: 0 })
  }

  /** What closes nothing is a mistake that the engine names. */
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
    if (depth > LIMITS.policy_depth) this.#refuse(at, `nested deeper than ${LIMITS.policy_depth}, operators counted`)
  }

  #refuse(at: number, message: string): void {
    if (this.unfit.length < SHOWN) this.unfit.push(this.#error(at, message, 'write several policies'))
    this.#tooDeep = true
  }

  #error(at: number, message: string, hint: string): FieldError {
    return { at: place(this.#file, this.#text, at), message, hint }
  }
}

/** What speaks against showing these files to the engine, and which names in them only look like the name of something. */
export function readTexts(files: Readonly<Record<string, string>>): { unfit: readonly FieldError[]; lookAlikes: readonly FieldError[] } {
  const readings = Object.entries(files).map(([file, text]) => new Reading(file, text))
  const statements = readings.reduce((sum, reading) => sum + reading.statements, 0)
  const message = `${statements} policies, the floor's included; a set holds ${LIMITS.policies} at the most`
  const tooMany = statements > LIMITS.policies ? [{ at: 'policies', message }] : []
  return { unfit: [...tooMany, ...readings.flatMap(({ unfit }) => unfit)], lookAlikes: readings.flatMap(({ lookAlikes }) => lookAlikes) }
}

/** `file:line:column`, both from 1; `offset` counts UTF-16 units. */
export function place(file: string, text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n')
  return `${file}:${before.length}:${[...(before.at(-1) ?? '')].length + 1}`
}

/** The same for the engine, which counts bytes. */
export const bytePlace = (file: string, text: string, offset: number): string => place(file, text, unitsIn(text, offset))
export const unitsIn = (text: string, bytes: number): number => Buffer.from(text).toString('utf8', 0, bytes).length

export function invalidPolicies(errors: readonly FieldError[]): Err<ReturnType<typeof failure>> {
  const count = errors.length === 1 ? 'one mistake' : errors.length < SHOWN ? `${errors.length} mistakes` : `${SHOWN} mistakes or more`
  return err(failure('invalid_policy', `${count} in the policies`, errors.slice(0, SHOWN)))
}
