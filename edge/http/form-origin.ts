// Checks that a form was sent from one of our pages (P03). Pure. The form's token authenticates its
// sender.

/**
 * Browsers send the origin of a form, so a request without one comes from no page of ours (P03).
 * Our pages ask for `no-referrer`, and some browsers then send the origin `null`; in this case
 * `Sec-Fetch-Site` decides. With https only the configured origin counts, because a client chooses
 * its `Host`. With http, as at home, the name in the request counts too.
 */
export function fromOurPage(request: Request, publicUrl: string): boolean {
  const site = request.headers.get('sec-fetch-site')
  const origin = request.headers.get('origin')
  if (origin === 'null') return site === 'same-origin'
  const ours = new URL(publicUrl)
  const allowed = ours.protocol === 'https:' ? [ours.origin] : [ours.origin, new URL(request.url).origin]
  return origin !== null && allowed.includes(origin) && (site === null || site === 'same-origin')
}
