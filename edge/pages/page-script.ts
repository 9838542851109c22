// The scripts of live pages: the part that all share, and the link page's own. No script sends an
// answer or discards what somebody is writing. Without scripts, people reload the page.

/**
 * `follow({…})` handles the events of the page's stream until its event `over`. If the stream is
 * refused, the status of the page itself shows whether it is over (as with a revoked link). If not,
 * the script retries after 20 s, because the server frees the slots of closed streams.
 */
export const FOLLOW = `
const watched = document.querySelector('[data-live]')
let source
let leaving = false
const follow = (events) => {
  if (leaving) return
  source = new EventSource(watched.dataset.live)
  for (const [name, handle] of Object.entries(events)) source.addEventListener(name, ({ data }) => handle(JSON.parse(data)))
  source.addEventListener('over', over)
  source.addEventListener('error', () => { if (source.readyState === EventSource.CLOSED) refused(events) })
}
const refused = async (events) => {
  const { status } = await fetch(location.href, { method: 'HEAD' }).catch(() => ({ status: 503 }))
  if ([401, 403, 404, 410].includes(status)) over()
  else setTimeout(follow, 20000, events)
}
const over = () => {
  source.close()
  const texts = [...document.querySelectorAll('textarea')]
  if (texts.every(({ value, defaultValue }) => value === defaultValue)) return location.replace(location.pathname + location.search)
  document.getElementById('over').hidden = false
  for (const button of document.querySelectorAll('main button')) button.disabled = true
}
for (const form of document.querySelectorAll('form')) form.addEventListener('submit', () => {
  leaving = true
  source.close()
})`

/** Shows the answers of others as they come, without touching the form or the scroll position. */
export const PAGE_SCRIPT = `{${FOLLOW}
follow({
  answers: ({ html }) => {
    const shown = document.getElementById('answers')
    if (shown.innerHTML !== html) shown.innerHTML = html
  },
})
}`
