// Whether a form was sent from a page of ours (P03). Pure; who sent it is told by what the form holds.

/**
 * Browsers say where a form was sent from; one that says nothing is no browser with our page in it (P03). A page that asks
 * for `no-referrer`, as ours does, has its forms sent with the origin `null`: then the browser's own word for the site counts.
 */
export function fromOurPage(request: Request, publicUrl: string): boolean {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (origin === 'null') return site === 'same-origin'
  const allowed = new Set([new URL(publicUrl).origin, new URL(request.url).origin])
  return origin !== null && allowed.has(origin) && (site === null || site === 'same-origin')
}
