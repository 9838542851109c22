// A log in memory with a key of its own, as an edge would show it to a witness.

import { generateKeyPairSync } from 'node:crypto'
import { signCheckpoint } from '../../shared/evidence/checkpoint.ts'
import { type PrivateJwk, type Signer, signerFromJwk } from '../../shared/evidence/dsse.ts'
import { append, consistency, leafHash, root } from '../../shared/evidence/merkle.ts'

export const newSigner = (): Signer =>
  signerFromJwk(generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' }) as PrivateJwk) // the form in which Node exports this type of key

export class GrownLog {
  readonly origin: string
  readonly signer = newSigner()
  readonly #nodes = new Map<string, string>()
  #size = 0

  constructor(origin: string, leaves: readonly string[] = []) {
    this.origin = origin
    for (const leaf of leaves) this.add(leaf)
  }

  add(leaf: string): void {
    for (const { level, index, hash } of append(this.#size, leafHash(leaf), this.#read))
      this.#nodes.set(`${level}/${index}`, hash)
    this.#size++
  }

  note(size = this.#size, signer = this.signer): string {
    return signCheckpoint({ origin: this.origin, size, root: root(size, this.#read) }, signer)
  }

  proof(old: number, size = this.#size): string[] {
    return consistency(old, size, this.#read)
  }

  /** The body of a request to a witness. */
  submission(old: number, size = this.#size): string {
    const lines = this.proof(old, size).map((hash) => `${Buffer.from(hash, 'hex').toString('base64')}\n`)
    return `old ${old}\n${lines.join('')}\n${this.note(size)}`
  }

  readonly #read = (level: number, index: number): string => this.#nodes.get(`${level}/${index}`) ?? ''
}
