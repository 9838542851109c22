// An issuer of tokens over real HTTP: it publishes a discovery document and a key set, signs tokens
// with `jose`, and can be made to misbehave.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { CryptoKey, JWK, JWTPayload } from 'jose'
import { CompactSign, exportJWK, generateKeyPair } from 'jose'

export type SigningKey = {
  readonly kid: string
  readonly alg: string
  readonly key: CryptoKey
  readonly jwk: JWK
}

/** A new key pair, as an issuer publishes it. */
export async function newSigningKey(alg: string, kid: string): Promise<SigningKey> {
  const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true })
  return { kid, alg, key: privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' } }
}

/** Signs any header and any claims, so that a test can be wrong in each. */
export const sign = (
  { kid, alg, key }: Pick<SigningKey, 'kid' | 'alg' | 'key'>,
  claims: JWTPayload,
  header: Readonly<Record<string, unknown>> = {},
): Promise<string> =>
  new CompactSign(Buffer.from(JSON.stringify(claims))).setProtectedHeader({ alg, kid, ...header }).sign(key)

type Reply = (request: IncomingMessage, response: ServerResponse) => void

export class TokenIssuer {
  /** Paths that were requested, in order. */
  readonly asked: string[] = []
  /** The claim `iss`. */
  readonly issuer: string
  keys: SigningKey[]
  /** Instead of the documents. */
  reply: Reply | undefined
  readonly #server: Server

  private constructor(issuer: string, keys: SigningKey[]) {
    this.issuer = issuer
    this.keys = keys
    this.#server = createServer((request, response) => {
      this.asked.push(request.url ?? '')
      if (this.reply !== undefined) return this.reply(request, response)
      const isKeySet = request.url === '/keys'
      const documents = isKeySet ? { keys: this.keys.map(({ jwk }) => jwk) } : this.#discovery
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(documents))
    })
  }

  static async open(issuer: string, ...keys: SigningKey[]): Promise<TokenIssuer> {
    const opened = new TokenIssuer(issuer, keys)
    await new Promise<void>((resolve) => opened.#server.listen(0, '127.0.0.1', resolve))
    return opened
  }

  get #discovery() {
    return { issuer: this.issuer, jwks_uri: `${this.url}/keys`, claims_supported: ['sub'] }
  }

  /** The address at which it really listens. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}` // it listens on TCP
  }

  /** Claims of a token for this edge that is valid for five minutes. */
  claims(audience: string, change: JWTPayload = {}): JWTPayload {
    const now = Math.floor(Date.now() / 1000)
    return { iss: this.issuer, sub: 'workload', aud: audience, iat: now, exp: now + 300, ...change }
  }

  /** A valid token, signed with the first key. */
  token(audience: string, change: JWTPayload = {}, header: Record<string, unknown> = {}): Promise<string> {
    const [key] = this.keys
    if (key === undefined) throw new Error('this issuer has no key')
    return sign(key, this.claims(audience, change), header)
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }
}
