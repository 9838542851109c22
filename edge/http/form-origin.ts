// Whether a form was sent from a page of ours (P03). Pure; who sent it is told by what the form holds.

/**
 * Browsers say where a form was sent from; one that says nothing is no browser with our page in it (P03). A page that asks
 * for `no-referrer`, as ours does, has its forms sent with the origin `null`: then the browser's own word for the site counts.
 * A deployment in https has one name, and what a request says of its host is not it; one in http answers to whatever it is called by at home.
 */
export function fromOurPage(request: Request, publicUrl: string): boolean {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (origin === 'null') return site === 'same-origin'
  const ours = new URL(publicUrl)
  const allowed = ours.protocol === 'https:' ? [ours.origin] : [ours.origin, new URL(request.url).origin]
  return origin !== null && allowed.includes(origin) && (site === null || site === 'same-origin')
}
