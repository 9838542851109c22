// `node infra/check/graph.ts [--write]`: draws the rooms of infra/check/rooms.ts into
// docs/rooms.svg, and exits 1 if that file is out of date. An arrow leads from a room to one that
// it may import. Arrows that follow from others are left out.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { Graphviz } from '@hpcc-js/wasm-graphviz'
import { ROOMS, SIDES } from './rooms.ts'

const DRAWING = 'docs/rooms.svg'

type Reach = Readonly<Record<string, readonly string[]>>

/**
 * The same order with the fewest arrows: an arrow is left out if other arrows lead to the same
 * room.
 */
export function reduced(rooms: Reach): [from: string, to: string][] {
  const beyond = (room: string): Set<string> =>
    new Set((rooms[room] ?? []).flatMap((next) => [next, ...beyond(next)]))
  return Object.entries(rooms).flatMap(([from, reach]) => {
    const indirect = new Set(reach.flatMap((next) => [...beyond(next)]))
    return reach.filter((to) => !indirect.has(to)).map((to): [string, string] => [from, to])
  })
}

function dotOf(): string {
  const clusters = SIDES.map((side) => {
    const rooms = Object.keys(ROOMS[side])
    const nodes = rooms.map((room, index) => `    "${side}/${room}" [label="${index + 1}  ${room}"]`)
    const arrows = reduced(ROOMS[side]).map(([from, to]) => `    "${side}/${from}" -> "${side}/${to}"`)
    return [`  subgraph "cluster_${side}" {`, `    label="${side}/"`, ...nodes, ...arrows, '  }'].join('\n')
  })
  // Every other side imports shared/. One arrow from its lowest room shows that, and keeps shared/
  // at the bottom of the drawing.
  const used = SIDES.filter((side) => side !== 'shared').map((side) => {
    const from = Object.keys(ROOMS[side])[0]
    const to = Object.keys(ROOMS.shared).at(-1)
    return `  "${side}/${from}" -> "shared/${to}" [ltail="cluster_${side}", lhead="cluster_shared", class="between"]`
  })
  return [
    'digraph rooms {',
    '  graph [compound=true, bgcolor="transparent", fontname="Helvetica", fontsize=15, labeljust="l", ranksep=0.42, nodesep=0.18, pad=0.1]',
    '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=12, height=0.34, width=0.3, margin="0.16,0.05"]',
    '  edge [arrowsize=0.55]',
    ...clusters,
    ...used,
    '}',
  ].join('\n')
}

/**
 * Colours for a light and for a dark page, in place of those that graphviz writes at each shape.
 */
const STYLE = `<style>
  text { fill: #1c2733; }
  .node path { fill: #f4f7fa; stroke: #5b7083; }
  .cluster path, .cluster polygon { fill: none; stroke: #a9b7c4; }
  .edge path { fill: none; stroke: #7b8ea0; }
  .edge polygon { fill: #7b8ea0; stroke: #7b8ea0; }
  .between path { stroke-dasharray: 5 4; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e2e9f0; }
    .node path { fill: #1d2833; stroke: #8aa0b4; }
    .cluster path, .cluster polygon { stroke: #4c5d6d; }
    .edge path { stroke: #8598aa; }
    .edge polygon { fill: #8598aa; stroke: #8598aa; }
  }
</style>`

export async function drawing(): Promise<string> {
  const graphviz = await Graphviz.load()
  const svg = graphviz.dot(dotOf(), 'svg')
  return svg
    .replace(/^[\s\S]*?(?=<svg)/, '')
    .replace(/<!--[\s\S]*?-->\n?/g, '')
    .replace(/ (?:fill|stroke)="[^"]*"/g, '')
    .replace(
      /(<svg[^>]*>)/,
      `$1\n<title>The rooms of Countersign, and which rooms each may import</title>\n${STYLE}`,
    )
}

if (import.meta.main) {
  const svg = await drawing()
  const stale = !existsSync(DRAWING) || readFileSync(DRAWING, 'utf8') !== svg
  if (process.argv.includes('--write')) writeFileSync(DRAWING, svg)
  else if (stale) console.log(`${DRAWING} is out of date; run \`npm run graph\` and commit it`)
  process.exitCode = stale && !process.argv.includes('--write') ? 1 : 0
}
