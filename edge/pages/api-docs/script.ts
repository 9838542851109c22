// The script of /docs: search, and buttons that copy. Without it, everything else works.

export const DOCS_SCRIPT = `{
const field = document.getElementById('search')
const entries = [...document.querySelectorAll('[data-find]')]
const groups = [...document.querySelectorAll('nav.side details details')]
const menu = document.querySelector('nav.side details')
if (innerWidth < 1024) menu.open = false
const first = groups.filter(({ open }) => open)
field.closest('[hidden]').hidden = false
field.addEventListener('input', () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean)
  for (const entry of entries) entry.hidden = !words.every((word) => entry.dataset.find.includes(word))
  for (const group of groups) {
    const found = group.querySelector('li:not([hidden])') !== null
    group.hidden = !found
    group.open = words.length === 0 ? first.includes(group) : found
  }
  document.getElementById('nothing').hidden = groups.some(({ hidden }) => !hidden)
})
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || /INPUT|TEXTAREA/.test(document.activeElement.tagName)) return
  event.preventDefault()
  menu.open = true
  field.focus()
})
if (navigator.clipboard) for (const text of document.querySelectorAll('pre.copy')) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(text.textContent)
    button.textContent = 'Copied'
    setTimeout(() => { button.textContent = 'Copy' }, 2000)
  })
  text.before(button)
}
}`
