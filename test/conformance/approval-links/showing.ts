// Looking at a link decides nothing, whoever looks and however: people, link expanders, mail
// scanners, browsers that prefetch.

import { type Check, stillPending } from './check.ts'
import { formOf, leadsTo, Visitor } from './visitor.ts'

/** Programs that follow links automatically: chat expanders, mail scanners, crawlers, monitors. */
const EXPANDERS = [
  'Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)',
  'Slackbot 1.0 (+https://api.slack.com/robots)',
  'Mozilla/5.0 (Windows NT 10.0; Win64; x64) SafeLinks',
  'Microsoft Office Existence Discovery',
  'Mozilla/5.0 (compatible; MSOffice; SkypeUriPreview Preview/0.5)',
  'Mozilla/5.0 (compatible; Google-Safety; +http://www.google.com/bot.html)',
  'Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)',
  'GoogleImageProxy',
  'facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)',
  'Twitterbot/1.0',
  'LinkedInBot/1.0',
  'Discordbot/2.0',
  'TelegramBot (like TwitterBot)',
  'WhatsApp/2.23.20.0',
  'Barracuda Sentinel (EE)',
  'Mimecast',
  'Proofpoint URL Defense',
  'curl/8.5.0',
  'python-requests/2.32',
  '',
]

const PREFETCHES: readonly Readonly<Record<string, string>>[] = [
  { 'sec-purpose': 'prefetch' },
  { 'sec-purpose': 'prefetch;prerender' },
  { 'sec-purpose': 'prefetch;anonymous-client-ip' },
  { purpose: 'prefetch' },
  { 'x-purpose': 'preview' },
  { 'x-moz': 'prefetch' },
]

export const SHOWING: readonly Check[] = [
  {
    name: 'get',
    promise: 'GET shows a page with a form that answers by POST, as often as it is opened',
    needs: 'one',
    async run(ask) {
      const forms = []
      for (let i = 0; i < 3; i++) forms.push(formOf(await new Visitor().open(ask.link)))
      const missing = forms.some((form) => form === undefined)
        ? ['a page without a form that is sent by POST']
        : []
      return [...missing, ...(await stillPending(ask, 'GET'))]
    },
  },
  {
    name: 'head',
    promise: 'HEAD is answered like GET, without the page, and decides nothing',
    needs: 'one',
    async run(ask) {
      const [get, head] = [
        await new Visitor().send('GET', ask.link),
        await new Visitor().send('HEAD', ask.link),
      ]
      const differs = get.status === head.status ? [] : [`HEAD is answered ${head.status}, GET ${get.status}`]
      return [...differs, ...(await stillPending(ask, 'HEAD'))]
    },
  },
  {
    name: 'methods',
    promise: 'OPTIONS, PUT, PATCH, DELETE and methods in disguise decide nothing',
    needs: 'one',
    async run(ask, { approve: [name, value] }) {
      const body = new URLSearchParams([[name, value]]).toString()
      const disguised = {
        'x-http-method-override': 'POST',
        'x-method-override': 'POST',
        'x-http-method': 'POST',
      }
      await new Visitor().send('OPTIONS', ask.link)
      for (const method of ['PUT', 'PATCH', 'DELETE']) await new Visitor().send(method, ask.link, { body })
      await new Visitor().send('GET', ask.link, { headers: disguised })
      await new Visitor().send('GET', `${ask.link}?_method=POST&${body}`)
      return stillPending(ask, 'other methods')
    },
  },
  {
    name: 'prefetch',
    promise: 'a browser that prefetches decides nothing',
    needs: 'one',
    async run(ask) {
      for (const headers of PREFETCHES) await new Visitor().open(ask.link, headers)
      return stillPending(ask, 'prefetching')
    },
  },
  {
    name: 'expanders',
    promise: 'link expanders and mail scanners decide nothing, by HEAD and by GET',
    needs: 'one',
    async run(ask) {
      const visits = EXPANDERS.flatMap((agent) => [
        new Visitor().send('HEAD', ask.link, { headers: { 'user-agent': agent } }),
        new Visitor().open(ask.link, { 'user-agent': agent }),
      ])
      await Promise.all(visits)
      return stillPending(ask, 'expanders')
    },
  },
  {
    name: 'crawl',
    promise: 'a scanner that follows all that the page leads to, and sends its form by GET, decides nothing',
    needs: 'one',
    async run(ask, { approve: [name, value] }) {
      const visitor = new Visitor()
      const page = await visitor.open(ask.link)
      for (const to of leadsTo(page)) await visitor.send('GET', to)
      const form = formOf(page)
      const query = new URLSearchParams(form?.fields)
      query.set(name, value)
      for (const to of new Set([ask.link, form?.action ?? ask.link]))
        await visitor.send('GET', `${to}?${query}`)
      return stillPending(ask, 'crawling')
    },
  },
  {
    name: 'headers',
    promise:
      'the page can’t be framed, is not kept by caches or search engines, and does not tell where it was',
    needs: 'one',
    async run(ask) {
      const { headers } = await new Visitor().open(ask.link)
      const says = (name: string, pattern: RegExp): string[] =>
        pattern.test(headers.get(name) ?? '') ? [] : [`\`${name}: ${headers.get(name) ?? ''}\``]
      return [
        ...says('content-security-policy', /frame-ancestors 'none'/),
        ...says('cache-control', /no-store/),
        ...says('referrer-policy', /no-referrer/),
        ...says('x-robots-tag', /noindex/),
      ]
    },
  },
]
