// The floor of waiting streams: a Worker that does nothing but hold a response open, with a comment
// every five seconds. `/plain` only that; `/message` with a message to an object that stays open;
// `/object` after it has written one row in an object of its own.

import { DurableObject } from 'cloudflare:workers'

const COMMENT = new TextEncoder().encode(':\n\n')
const pause = (ms) => new Promise((go) => setTimeout(go, ms))

export class Waits extends DurableObject {
  wait(ms) {
    return pause(ms)
  }
}

export class Writes extends DurableObject {
  write() {
    const { sql } = this.ctx.storage
    sql.exec('create table if not exists rows (a)')
    sql.exec('insert into rows values (1)')
  }
}

function idle(until) {
  const stream = new ReadableStream({
    async pull(controller) {
      await Promise.race([until, pause(5_000)])
      controller.enqueue(COMMENT)
    },
  })
  return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
}

export default {
  async fetch(request, { WAITS, WRITES }) {
    const { pathname, search } = new URL(request.url)
    if (pathname === '/message') return idle(WAITS.getByName('all').wait(300_000))
    if (pathname === '/object') await WRITES.getByName(search).write()
    return pathname === '/ready' ? new Response('') : idle(pause(300_000))
  },
}
