// Owns what a tool that may reach hosts finds in its environment, so that ordinary programs use the proxy, and trust whom the operator
// trusts, without being told. Pure. The values hold nothing but the token of this one call.

import type { Relay } from './argv.ts'

/** Where the authorities are in a sandbox: a name that is not below the host's folder, which is bound read-only. */
export const AUTHORITIES = '/etc/ssl/ca-bundle.pem'

/** A tool that serves something to itself reaches it without the proxy. */
const OWN_HOSTS = ['localhost', '127.0.0.1', '::1']
const BOTH_CASES = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'SOCKS_PROXY', 'NO_PROXY']

/**
 * What a tool's own contract sets goes before, in both spellings: curl reads `https_proxy` first, and a contract can name `HTTPS_PROXY`
 * only.
 */
export function networkEnv(
  { proxyUrl, authorities }: Relay,
  hosts: readonly string[],
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const listed = hosts.map((pattern) => pattern.split(':', 1)[0])
  const meant: Record<string, string> = {
    HTTP_PROXY: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    ALL_PROXY: proxyUrl, // not socks5h: Python's clients refuse to start with that where their extra is not installed
    SOCKS_PROXY: proxyUrl.replace(/^http:/, 'socks5h:'),
    NO_PROXY: OWN_HOSTS.filter((host) => !listed.includes(host)).join(','),
    NODE_USE_ENV_PROXY: '1', // or Node's fetch knows none
    ...(authorities === undefined ? {} : TRUST),
    ...own,
  }
  const lower = BOTH_CASES.map((name) => [name.toLowerCase(), meant[name] ?? ''])
  return { ...Object.fromEntries(lower), ...meant }
}

const TRUST = {
  SSL_CERT_FILE: AUTHORITIES, // OpenSSL: curl, Python, Ruby; Go
  GIT_SSL_CAINFO: AUTHORITIES, // git, whose libcurl may be built with GnuTLS
  REQUESTS_CA_BUNDLE: AUTHORITIES, // Python's requests, and pip
  NODE_EXTRA_CA_CERTS: AUTHORITIES, // Node
  NPM_CONFIG_CAFILE: AUTHORITIES, // npm, which a host may have told of a file of its own
} as const
