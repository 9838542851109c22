// Functions that run inside a page, through `page.evaluate`. Each is self-contained and uses only
// the browser's globals, which are declared here so that the rest of the project needs no DOM
// types.

type Inside = {
  readonly tagName: string
  readonly textContent: string | null
  readonly parentElement: Inside | null
  readonly childNodes: Iterable<{ readonly nodeType: number; readonly textContent: string | null }>
  checkVisibility(): boolean
  getBoundingClientRect(): { readonly top: number; readonly bottom: number }
  setAttribute(name: string, value: string): void
}
declare const document: {
  readonly activeElement: Inside | null
  readonly documentElement: { readonly scrollWidth: number; readonly style: { fontSize: string } }
  querySelector(selector: string): Inside | null
  querySelectorAll(selector: string): Iterable<Inside>
}
declare const innerWidth: number
declare const getComputedStyle: (of: Inside) => {
  readonly color: string
  readonly backgroundColor: string
  readonly outlineStyle: string
}

/** All texts with a contrast below 4.5:1, with their contrast. Opens folded parts first. */
export function faintTexts(): string[] {
  type Colour = { rgb: number[]; alpha: number }
  const parse = (text: string): Colour => {
    const [r = 0, g = 0, b = 0, alpha = 1] = (text.match(/[\d.]+/g) ?? []).map(Number)
    return { rgb: [r, g, b], alpha }
  }
  const luminance = ({ rgb }: Colour): number => {
    const [r = 0, g = 0, b = 0] = rgb.map((value) =>
      value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ground = (element: Inside | null): Colour => {
    if (element === null) return parse('rgb(255, 255, 255)')
    const colour = parse(getComputedStyle(element).backgroundColor)
    return colour.alpha === 1 ? colour : ground(element.parentElement)
  }
  for (const folded of document.querySelectorAll('details')) folded.setAttribute('open', '')
  const faint: string[] = []
  let texts = 0
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(
      ({ nodeType, textContent }) => nodeType === 3 && textContent?.trim() !== '',
    )
    if (!own || !element.checkVisibility()) continue
    texts++
    const [text, behind] = [luminance(parse(getComputedStyle(element).color)), luminance(ground(element))]
    const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05)
    if (ratio < 4.5)
      faint.push(`${ratio.toFixed(2)} ${element.tagName} ${element.textContent?.trim().slice(0, 40)}`)
  }
  return texts > 3 ? faint : ['no text was found to measure']
}

/** Opens all folded parts. */
export function unfold(): void {
  for (const folded of document.querySelectorAll('details')) folded.setAttribute('open', '')
}

/** The focused element and its outline. */
export function focused(): { element: string; outline: string } {
  const { activeElement } = document
  if (activeElement === null) return { element: 'nothing', outline: 'none' }
  return {
    element: `${activeElement.tagName} ${activeElement.textContent?.trim()}`.trim(),
    outline: getComputedStyle(activeElement).outlineStyle,
  }
}

/** The distance between the focused element's end and the sticky buttons. */
export const aboveAnswers = (): number =>
  (document.querySelector('.answer')?.getBoundingClientRect().top ?? 0) -
  (document.activeElement?.getBoundingClientRect().bottom ?? 0)

/** The number of pixels by which the page overflows sideways with this font size. */
export function sideways(fontSize: string): number {
  document.documentElement.style.fontSize = fontSize
  return document.documentElement.scrollWidth - innerWidth
}
