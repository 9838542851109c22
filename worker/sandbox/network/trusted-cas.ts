// Owns whom a tool trusts that reaches hosts: the authorities of this host and the operator's own, in one file that the worker makes once.
// It never changes what the host trusts, and hands out certificates alone, never a key.

import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { err, ok, type Result } from '../../../shared/result.ts'

/** Where distributions keep theirs. */
const HOST_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
]
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The certificates of a file that an operator names, or why they can't be used. Whatever else is in the file stays there. */
export function readAuthorities(path: string): Result<string, string> {
  let text: string
  try {
    text = readFileSync(path, 'latin1')
  } catch (error) {
    return err(
      `\`${path}\` can’t be read (${error instanceof Error && 'code' in error ? error.code : 'unknown error'})`,
    )
  }
  const found = text.match(CERTIFICATE) ?? []
  if (found.length === 0) return err(`\`${path}\` holds no certificate: give authorities in PEM`)
  for (const [index, pem] of found.entries()) {
    try {
      if (!new X509Certificate(pem).ca)
        return err(`certificate ${index + 1} of \`${path}\` is no authority’s`)
    } catch {
      return err(`certificate ${index + 1} of \`${path}\` can’t be read`)
    }
  }
  return ok(`${found.join('\n')}\n`)
}

/** Whom a tool trusts by default: the worker's file, or the host's. */
export const trusted = (file: string | undefined): string => {
  const path = file ?? HOST_FILES.find((candidate) => existsSync(candidate))
  return path === undefined ? '' : readFileSync(path, 'latin1')
}

/** The file that sandboxes see. Renamed into place: another worker with this folder may have sandboxes that look at it. */
export async function joinAuthorities(folder: string, own: string): Promise<string> {
  const host = HOST_FILES.find((path) => existsSync(path))
  const [path, fresh] = [join(folder, 'authorities.pem'), join(folder, `authorities-${process.pid}.pem`)]
  await writeFile(fresh, `${host === undefined ? '' : readFileSync(host, 'latin1')}\n${own}`, { mode: 0o600 })
  await rename(fresh, path)
  return path
}
