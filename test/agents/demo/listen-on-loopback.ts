// Preloaded into the demo's MCP server, which would listen on every address of this machine: it
// listens on the loopback address only.

import { Server } from 'node:net'

const listen = Server.prototype.listen
Server.prototype.listen = function (this: Server, port: unknown, ...rest: unknown[]) {
  return Reflect.apply(listen, this, [{ port: Number(port), host: '127.0.0.1' }, ...rest])
}
