// Finds settings of an issuer that could never work or would be wrong, when an operator stores it:
// addresses that no request may reach, and audiences that name another tenant. Pure.

import type { FieldError } from '../../shared/failures.ts'
import type { IssuerSpec } from '../../shared/wire/issuers.ts'
import { tenantInAudience } from '../directory/trusted-issuer.ts'
import { faultInAddress } from '../platform/outbound-fetch.ts'
import { discoveryAddress } from './key-documents.ts'

export function faultsIn(
  { issuer, jwks, audiences = [] }: IssuerSpec,
  { tenant, publicUrl, loopback }: { tenant: string; publicUrl: string; loopback: boolean },
): FieldError[] {
  const address = addressOf(issuer, jwks)
  const fault = address === undefined ? undefined : faultInAddress(address.url, loopback)
  const hint = 'for an issuer inside your network, give its public keys: `jwks: {"keys": […]}`'
  return [
    ...(address === undefined || fault === undefined ? [] : [{ at: address.at, message: fault, hint }]),
    ...audiences.flatMap((audience, i) => {
      const named = tenantInAudience(publicUrl, audience)
      return named === undefined || named === tenant
        ? []
        : [{ at: `/audiences/${i}`, message: 'names another tenant of this edge' }]
    }),
  ]
}

function addressOf(
  issuer: string,
  jwks: IssuerSpec['jwks'],
): { readonly at: string; readonly url: string } | undefined {
  if (jwks === 'discovery') return { at: '/issuer', url: discoveryAddress(issuer) }
  return 'uri' in jwks ? { at: '/jwks/uri', url: jwks.uri } : undefined
}
