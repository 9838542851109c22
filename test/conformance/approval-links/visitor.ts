// As much of a browser as links need: cookies, redirects, the form of a page. It runs no script.
// Each visitor is a separate person.

type Reply = {
  readonly url: string
  readonly status: number
  readonly headers: Headers
  readonly text: string
}
export type Form = { readonly page: string; readonly action: string; readonly fields: URLSearchParams }
type Sent = {
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly type?: string
}

const PATIENCE_MS = 60_000
const HOPS = 5
const BROWSER = {
  'user-agent':
    'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36',
  accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8',
}

/** A form that is sent by POST, and that has a button. */
const FORM = /<form\b([^>]*)>([\s\S]*?)<\/form>/gi
const ENTITIES: Readonly<Record<string, string>> = {
  amp: '&',
  lt: '<',
  gt: '>',
  quot: '"',
  '#39': "'",
  '#x27': "'",
  '#x2F': '/',
}

function attribute(tag: string, name: string): string | undefined {
  const [, double, single, bare] =
    new RegExp(`(?:^|\\s)${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, 'i').exec(tag) ?? []
  return (double ?? single ?? bare)?.replace(
    /&([^;\s]+);/g,
    (whole, entity: string) => ENTITIES[entity] ?? whole,
  )
}

/** The form by which a page answers, with its hidden fields. */
export function formOf({ url, status, text }: Reply): Form | undefined {
  if (status >= 300) return undefined
  for (const [, tag = '', inside = ''] of text.matchAll(FORM)) {
    if (attribute(tag, 'method')?.toLowerCase() !== 'post' || !/<button\b|type=["']?submit/i.test(inside))
      continue
    const fields = new URLSearchParams()
    for (const [input] of inside.matchAll(/<input\b[^>]*>/gi)) {
      const name = attribute(input, 'name')
      if (name !== undefined && attribute(input, 'type')?.toLowerCase() === 'hidden')
        fields.append(name, attribute(input, 'value') ?? '')
    }
    return { page: url, action: new URL(attribute(tag, 'action') || url, url).href, fields }
  }
  return undefined
}

/** All links of a page within its own site. */
export function leadsTo({ url, text }: Reply): string[] {
  const found = [...text.matchAll(/<[a-z][^>]*>/gi)].flatMap(([tag]) =>
    ['href', 'src', 'action', 'formaction']
      .map((name) => attribute(tag, name))
      .filter((to): to is string => to !== undefined),
  )
  const here = new URL(url)
  return [
    ...new Set(
      found
        .map((to) => new URL(to, url))
        .filter(({ origin }) => origin === here.origin)
        .map(({ href }) => href),
    ),
  ]
}

export class Visitor {
  readonly #cookies = new Map<string, string>()

  /** One request, without following redirects. */
  async send(method: string, url: string, { headers = {}, body, type }: Sent = {}): Promise<Reply> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const answer = await fetch(url, {
      method,
      redirect: 'manual',
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: {
        ...BROWSER,
        ...(cookie === '' ? {} : { cookie }),
        ...(type === undefined ? {} : { 'content-type': type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=;]+)=([^;]*)/.exec(line) ?? []
      this.#cookies.set(name, value)
    }
    return { url, status: answer.status, headers: answer.headers, text: await answer.text() }
  }

  /** Opens a page like a browser, following redirects within the site. */
  async open(url: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    let reply = await this.send('GET', url, { headers })
    for (let hop = 0; hop < HOPS && reply.status >= 300 && reply.status < 400; hop++) {
      const next = new URL(reply.headers.get('location') ?? '', reply.url)
      if (next.origin !== new URL(url).origin) break
      reply = await this.send('GET', next.href, { headers })
    }
    return reply
  }

  /** Presses a button of the form like a browser on its page, with the differences in `change`. */
  submit(
    { page, action, fields }: Form,
    [name, value]: readonly [string, string],
    { headers, ...sent }: Sent = {},
  ): Promise<Reply> {
    const all = new URLSearchParams(fields)
    all.set(name, value)
    return this.send('POST', action, {
      body: all.toString(),
      type: 'application/x-www-form-urlencoded',
      ...sent,
      headers: headers ?? {
        origin: new URL(page).origin,
        'sec-fetch-site': 'same-origin',
        'sec-fetch-mode': 'navigate',
      },
    })
  }
}

/** The result of an answer’s POST: it counted, or its status refused it. */
export const counted = ({ status }: Reply): boolean => status < 400
