// A console session over plain HTTP, for what a browser sends and what an attacker would send
// instead.

import { expect } from 'vitest'

export class ConsoleSession {
  readonly #url: string
  /** The cookie as a browser sends it back: `name=value`. */
  readonly cookie: string
  readonly setCookie: string

  private constructor(url: string, setCookie: string) {
    this.#url = url
    this.setCookie = setCookie
    this.cookie = setCookie.split(';')[0] ?? ''
  }

  static async open(url: string, key: string, headers: Record<string, string> = {}): Promise<ConsoleSession> {
    const answer = await signIn(url, key, headers)
    expect(answer.status).toBe(303)
    return new ConsoleSession(url, answer.headers.get('set-cookie') ?? '')
  }

  get(path: string, init: RequestInit = {}): Promise<Response> {
    return fetch(new URL(path, this.#url), {
      redirect: 'manual',
      ...init,
      headers: { cookie: this.cookie, ...init.headers },
    })
  }

  /** All fields of the page's first form with this action. */
  async fields(page: string): Promise<Record<string, string>> {
    const text = await (await this.get(page)).text()
    return Object.fromEntries(
      [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
        name,
        value,
      ]),
    )
  }

  post(
    path: string,
    fields: Record<string, string>,
    headers: Record<string, string> = {},
  ): Promise<Response> {
    return this.get(path, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: new URL(this.#url).origin, ...headers },
    })
  }
}

export const signIn = (
  url: string,
  key: string,
  headers: Record<string, string> = {},
  fields: Record<string, string> = {},
): Promise<Response> =>
  fetch(new URL('/console/sign-in', url), {
    method: 'POST',
    redirect: 'manual',
    body: new URLSearchParams({ key, ...fields }),
    headers: { origin: new URL(url).origin, ...headers },
  })
