// Seals secrets with AES-256-GCM, under a key derived from the edge's for each tenant and bound to
// name and version. An attacker who has the disk but not the key can neither read a secret nor swap
// two.

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { canonical } from '../../shared/bytes/json.ts'

const ALGORITHM = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

export type SealedSecret = { readonly name: string; readonly version: number; readonly sealed: string }

export class Sealing {
  readonly #key: Buffer
  readonly #tenant: string

  constructor(vaultKey: Buffer, tenant: string) {
    this.#key = Buffer.from(
      hkdfSync('sha256', vaultKey, Buffer.alloc(0), `countersign vault of ${tenant} v1`, 32),
    )
    this.#tenant = tenant
  }

  seal(name: string, version: number, value: string): string {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(this.#bound(name, version))
    const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
    return Buffer.concat([nonce, text, cipher.getAuthTag()]).toString('base64')
  }

  /** Undefined if it was sealed with another key, for another name or version, or was changed. */
  open({ name, version, sealed }: SealedSecret): string | undefined {
    const bytes = Buffer.from(sealed, 'base64')
    if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
    const opening = createDecipheriv(ALGORITHM, this.#key, bytes.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    })
    opening.setAAD(this.#bound(name, version)).setAuthTag(bytes.subarray(-TAG_BYTES))
    try {
      return Buffer.concat([
        opening.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)),
        opening.final(),
      ]).toString('utf8')
    } catch {
      return undefined
    }
  }

  #bound = (name: string, version: number): Buffer => Buffer.from(canonical([this.#tenant, name, version]))
}
