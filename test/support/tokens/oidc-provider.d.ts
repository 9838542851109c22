// The part of `oidc-provider` that a test uses; the package brings no types.

declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  type ResourceServer = {
    readonly scope: string
    readonly audience: string
    readonly accessTokenFormat: 'jwt'
    readonly accessTokenTTL: number
    readonly jwt: { readonly sign: { readonly alg: string } }
  }
  type Configuration = {
    readonly clients: readonly Readonly<Record<string, unknown>>[]
    readonly jwks: { readonly keys: readonly object[] }
    readonly scopes: readonly string[]
    readonly features: {
      readonly clientCredentials: { readonly enabled: boolean }
      readonly devInteractions: { readonly enabled: boolean }
      readonly resourceIndicators: {
        readonly enabled: boolean
        readonly getResourceServerInfo: (context: unknown, resource: string) => ResourceServer
      }
    }
  }
  export class Provider {
    constructor(issuer: string, configuration: Configuration)
    callback(): (request: IncomingMessage, response: ServerResponse) => void
  }
}
