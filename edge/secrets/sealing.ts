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
  /** Keys from before a rotation, which open what they have sealed. */
  readonly #former: readonly Buffer[]
  readonly #tenant: string

  constructor(vaultKeys: readonly Buffer[], tenant: string) {
    const [current, ...former] = vaultKeys.map((key) =>
      Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), `countersign vault of ${tenant} v1`, 32)),
    )
    if (current === undefined) throw new Error('a vault needs a key')
    this.#key = current
    this.#former = former
    this.#tenant = tenant
  }

  /** Whether values may be sealed under an earlier key. */
  get hasFormer(): boolean {
    return this.#former.length > 0
  }

  seal(name: string, version: number, value: string): string {
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(this.#bound(name, version))
    const text = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
    return Buffer.concat([nonce, text, cipher.getAuthTag()]).toString('base64')
  }

  /** Undefined if it was sealed with another key, for another name or version, or was changed. */
  open(secret: SealedSecret): string | undefined {
    for (const key of [this.#key, ...this.#former]) {
      const value = this.#openWith(key, secret)
      if (value !== undefined) return value
    }
    return undefined
  }

  /**
   * The value sealed under the current key; undefined if it is so already, or if it can't be opened,
   * which is reported when the value is used.
   */
  resealed(secret: SealedSecret): string | undefined {
    if (this.#openWith(this.#key, secret) !== undefined) return undefined
    const value = this.open(secret)
    return value === undefined ? undefined : this.seal(secret.name, secret.version, value)
  }

  #openWith(key: Buffer, { name, version, sealed }: SealedSecret): string | undefined {
    const bytes = Buffer.from(sealed, 'base64')
    if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
    const opening = createDecipheriv(ALGORITHM, key, bytes.subarray(0, NONCE_BYTES), {
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
