// The scripts of pages that follow what happens: one for the link page, and what all of them have in common. None sends an answer, and
// none takes from anybody what they write or are about to send; without it a page is looked at again by hand.

/**
 * `follow({…})` hears what the stream tells until it is over. Where the stream is refused, the page itself says whether it is over as well,
 * as that of a link taken back; else it comes back, for those that are gone are forgotten after a while.
 */
export const FOLLOW = `
const watched = document.querySelector('[data-live]')
let source
let leaving = false
const follow = (events) => {
  if (leaving) return
  source = new EventSource(watched.dataset.live)
  for (const [name, hear] of Object.entries(events)) source.addEventListener(name, ({ data }) => hear(JSON.parse(data)))
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

/** What others answer shows as they do; what somebody writes is left alone, and so is where they are. */
export const PAGE_SCRIPT = `{${FOLLOW}
follow({
  answers: ({ html }) => {
    const shown = document.getElementById('answers')
    if (shown.innerHTML !== html) shown.innerHTML = html
  },
})
}`
