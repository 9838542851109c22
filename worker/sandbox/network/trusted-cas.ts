// Owns the certificate authorities that a tool with hosts trusts: this host's and the operator's,
// in one file that the worker writes once. The host's own files stay unchanged, and only
// certificates are copied, never a key.

import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { err, ok, type Result } from '../../../shared/result.ts'

/** The files of common distributions. */
const HOST_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
]
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * The certificates in a file that the operator names, or why they can't be used. Other content is
 * ignored.
 */
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
        return err(
          `certificate ${index + 1} of \`${path}\` is not a certificate authority’s: give the authority’s`,
        )
    } catch {
      return err(`certificate ${index + 1} of \`${path}\` can’t be read`)
    }
  }
  return ok(`${found.join('\n')}\n`)
}

/** The authorities that a tool trusts by default: the worker's file, or the host's. */
export const trustedCertificates = (file: string | undefined): string => {
  const path = file ?? HOST_FILES.find((candidate) => existsSync(candidate))
  return path === undefined ? '' : readFileSync(path, 'latin1')
}

/**
 * Writes the file that sandboxes see. It is renamed into place because sandboxes of another worker
 * with this folder may be reading it.
 */
export async function joinAuthorities(folder: string, own: string): Promise<string> {
  const host = HOST_FILES.find((path) => existsSync(path))
  const [path, fresh] = [join(folder, 'authorities.pem'), join(folder, `authorities-${process.pid}.pem`)]
  await writeFile(fresh, `${host === undefined ? '' : readFileSync(host, 'latin1')}\n${own}`, { mode: 0o600 })
  await rename(fresh, path)
  return path
}
