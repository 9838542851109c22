// `countersign skill build`: builds a signed package from the author's folder.

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { canonical, sha256 } from '../../shared/bytes/json.ts'
import { payloadBytes } from '../../shared/evidence/dsse.ts'
import type { Result } from '../../shared/result.ts'
import { ok } from '../../shared/result.ts'
import { declaredCapabilities, type UnboundManifest } from '../../shared/wire/skills.ts'
import { command, type Trouble } from '../shell/command.ts'
import { writeText } from '../shell/files.ts'
import { columns, inline } from '../shell/terminal-text.ts'
import { pack, payloadOf } from './package.ts'
import { signerOf } from './publisher-key.ts'
import { DIST, FOLDER, readSkill } from './source-folder.ts'

export const packagePath = (
  folder: string,
  { id, version }: Pick<UnboundManifest, 'id' | 'version'>,
): string => join(folder, DIST, `${id}-${version}.skill.json`)

export const build = command({
  words: ['skill', 'build'],
  args: FOLDER,
  flags: {
    signer: {
      value: 'FILE',
      what: 'the publisher’s key file from `skill keygen` (default: the publisher’s key on this machine)',
    },
  },
  does: 'Build the package of a skill: component, bill of materials and provenance, signed by its publisher',
  key: 'offline',
  examples: ['countersign skill build', 'countersign skill build hello --signer /run/secrets/acme.json'],
  async run({ args: { FOLDER: folder = '.' }, flags, paint }) {
    const skill = readSkill(folder)
    if (!skill.ok) return skill
    const { manifest } = skill.value
    const signer = signerOf(manifest.publisher, flags.signer)
    if (!signer.ok) return signer
    const { compileSkill } = await import('./compile.ts') // loads compilers and engines, so only when needed
    const made = await compileSkill(skill.value)
    if (!made.ok) return made
    const packed = pack(payloadOf(manifest, made.value), signer.value)
    const path = packagePath(folder, manifest)
    const written = writeInFolder(path, `${canonical(packed)}\n`)
    if (!written.ok) return written
    const { component, parts } = made.value
    const built = {
      id: manifest.id,
      version: manifest.version,
      package: path,
      digest: sha256(payloadBytes(packed)),
      component: { sha256: sha256(component), bytes: component.byteLength },
      capabilities: declaredCapabilities(manifest),
      made_of: parts.map(({ name, version }) => `${name} ${version}`),
      signed_by: signer.value.kid,
    }
    const rows = [
      ['package', path],
      ['digest', built.digest],
      ['component', `${component.byteLength} bytes, sha256 ${built.component.sha256}`],
      ['may use', built.capabilities.join(', ') || 'nothing'],
      ['contains', built.made_of.join(', ') || 'the component only'],
      ['signed by', `${manifest.publisher}, ${signer.value.kid}`],
    ]
    return ok({
      ok: true,
      json: built,
      text: `skill ${paint.bold(inline(manifest.id))} ${inline(manifest.version)}\n${columns(rows, '  ')}`,
    })
  },
})

function writeInFolder(path: string, text: string): Result<number, Trouble> {
  mkdirSync(join(path, '..'), { recursive: true })
  return writeText(path, text)
}
