// What the edge holds of skills beside their versions: what each keeps from call to call, the packages that were published, and the parts
// that no skill is to be made of.

import { canonical } from '../../shared/bytes/json.ts'
import { ok } from '../../shared/result.ts'
import { DeniedPartSpecs } from '../../shared/wire/skills.ts'
import type { Command } from '../shell/command.ts'
import { command } from '../shell/command.ts'
import { readJson, writeText } from '../shell/files.ts'
import { fitting } from '../shell/json-input.ts'
import { inline, listing, time } from '../shell/terminal-text.ts'

const ID = { ID: 'the skill’s id' } as const

const storage = command({
  words: ['skill', 'storage'],
  args: ID,
  flags: { after: { value: 'KEY', what: 'go on after this key, the last of the page before' } },
  does: 'Show what a skill keeps from call to call: keys and sizes, never the values',
  key: 'operator',
  async run({ args: { ID: id }, flags: { after }, api, paint }) {
    const kept = await api('readSkillStorage', {
      params: { id },
      query: after === undefined ? {} : { after },
    })
    if (!kept.ok) return kept
    const { keys, bytes, items, clearings } = kept.value
    const rows = items.map((item) => [item.key, String(item.bytes), time(item.changed_at_ms)])
    const past = clearings
      .map(
        ({ by, at_ms, keys, bytes }) =>
          `cleared by ${inline(by)}, ${time(at_ms)}: ${keys} keys, ${bytes} bytes\n`,
      )
      .join('')
    const table = listing(paint, ['key', 'bytes', 'changed'], rows, 'it keeps nothing')
    return ok({ ok: true, json: kept.value, text: `${table}${keys} keys, ${bytes} bytes\n${past}` })
  },
})

const clear = command({
  words: ['skill', 'clear'],
  args: ID,
  flags: {},
  does: 'Delete all that a skill keeps, whatever its state; who did it stays on record',
  key: 'operator',
  async run({ args: { ID: id }, api }) {
    const cleared = await api('clearSkillStorage', { params: { id } })
    if (!cleared.ok) return cleared
    return ok({
      ok: true,
      json: cleared.value,
      text: `skill ${inline(id)} keeps nothing any more: ${cleared.value.keys} keys, ${cleared.value.bytes} bytes are gone\n`,
    })
  },
})

const fetched = command({
  words: ['skill', 'package'],
  args: { ...ID, VERSION: 'which version' },
  flags: { output: { value: 'FILE', short: 'o', what: 'write it to this file' } },
  does: 'Fetch the package of a version as it was published, to see for oneself what was signed',
  key: 'operator',
  async run({ args: { ID: id, VERSION: version }, flags: { output }, api }) {
    const packed = await api('readSkillPackage', { params: { id, version } })
    if (!packed.ok) return packed
    const text = `${canonical(packed.value)}\n`
    if (output === undefined) return ok({ ok: true, json: packed.value, text })
    const written = writeText(output, text)
    if (!written.ok) return written
    return ok({
      ok: true,
      json: { file: output, bytes: written.value },
      text: `wrote ${inline(output)}, ${written.value} bytes\n`,
    })
  },
})

const deniedParts = command({
  words: ['skill', 'denied-parts'],
  args: {
    'FILE?':
      'a JSON list of {pattern, reason} that takes the place of the one that there is: `name@version` or a package URL, with * at its end for whatever follows; - reads standard input',
  },
  flags: {},
  does: 'List the parts that no skill is to be made of, or put them: what holds one is neither published nor enabled from then on',
  key: 'operator',
  async run({ args: { FILE: file }, api, paint }) {
    const wanted = file === undefined ? undefined : readJson(file)
    if (wanted?.ok === false) return wanted
    const items = wanted === undefined ? undefined : fitting(DeniedPartSpecs, wanted.value, `\`${file}\``)
    if (items?.ok === false) return items
    const parts =
      items === undefined
        ? await api('listDeniedParts', {})
        : await api('putDeniedParts', { body: { items: items.value } })
    if (!parts.ok) return parts
    const rows = parts.value.items.map(({ pattern, reason, by, at_ms }) => [
      pattern,
      `${by}, ${time(at_ms)}`,
      reason,
    ])
    return ok({
      ok: true,
      json: parts.value.items,
      text: listing(paint, ['part', 'by', 'reason'], rows, 'no part is denied'),
    })
  },
})

export const KEPT: readonly Command[] = [fetched, storage, clear, deniedParts]
