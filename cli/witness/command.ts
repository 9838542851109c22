// `countersign witness`: runs a witness of logs until it is interrupted.

import { once } from 'node:events'
import { verifierKey } from '../../shared/evidence/cosignature.ts'
import { err, ok } from '../../shared/result.ts'
import { alreadyPrinted, command, trouble, usage } from '../shell/command.ts'
import { reason } from '../shell/files.ts'
import { readWitnessConfig } from './config.ts'
import { witnessServer } from './server.ts'
import { StateFolder } from './state-folder.ts'
import { Witness } from './witness.ts'

export const witness = command({
  words: ['witness'],
  args: {},
  flags: {
    config: {
      value: 'FILE',
      what: 'required: JSON with name, listen (host, port), state (a folder) and logs (origin, keys); see docs/operations.md',
    },
  },
  does: 'Run a witness (C2SP tlog-witness): it cosigns checkpoints of the logs it knows, and refuses a log that was rolled back or forked',
  key: 'offline',
  exits: '0 it was interrupted; 1 it can’t listen, or can’t use its state folder',
  examples: ['countersign witness --config /etc/countersign/witness.json'],
  async run({ flags, live }) {
    if (flags.config === undefined) return err(usage('`--config` is missing: name the configuration file'))
    const config = readWitnessConfig(flags.config)
    if (!config.ok) return config
    const { name, listen, state: folder, logs } = config.value
    const state = await StateFolder.open(folder)
    if (!state.ok) return state
    const { tell, note, until } = live()
    const own = new Witness(name, logs, state.value)
    const server = witnessServer(own, note)
    try {
      server.listen(listen)
      await once(server, 'listening')
    } catch (thrown) {
      state.value.close()
      return err(trouble('unlistenable', `can’t listen on ${listen.host}:${listen.port}: ${reason(thrown)}`))
    }
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : listen.port
    const key = verifierKey(own.key)
    tell({ listening: { host: listen.host, port }, key }, `witness ${key} on ${listen.host}:${port}\n`)
    if (!until.aborted) await once(until, 'abort')
    server.close()
    server.closeAllConnections()
    state.value.close()
    return ok(alreadyPrinted(true))
  },
})
