// Owns the environment variables by which ordinary programs in a sandbox with hosts use the proxy
// and trust the operator's authorities. Pure. The only secret in them is the token of this one
// call.

import type { Relay } from './argv.ts'

/**
 * The file of authorities in a sandbox. It is outside /etc/ssl/certs, which is the host's,
 * read-only.
 */
export const AUTHORITIES = '/etc/ssl/ca-bundle.pem'

/** A tool reaches its own servers without the proxy. */
const OWN_HOSTS = ['localhost', '127.0.0.1', '::1']
const BOTH_CASES = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'SOCKS_PROXY', 'NO_PROXY']

/**
 * Variables of the tool's contract take precedence, in both spellings: curl reads `https_proxy`
 * first, and a contract can name only `HTTPS_PROXY`.
 */
export function networkEnv(
  { proxyUrl, authorities }: Relay,
  hosts: readonly string[],
  own: Readonly<Record<string, string>>,
): Record<string, string> {
  const listed = hosts.map((pattern) => pattern.split(':', 1)[0])
  const variables: Record<string, string> = {
    HTTP_PROXY: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    ALL_PROXY: proxyUrl, // not socks5h: without an optional package Python's clients refuse to start with it
    SOCKS_PROXY: proxyUrl.replace(/^http:/, 'socks5h:'),
    NO_PROXY: OWN_HOSTS.filter((host) => !listed.includes(host)).join(','),
    NODE_USE_ENV_PROXY: '1', // or Node's fetch uses no proxy
    ...(authorities === undefined ? {} : TRUST),
    ...own,
  }
  const lower = BOTH_CASES.map((name) => [name.toLowerCase(), variables[name] ?? ''])
  return { ...Object.fromEntries(lower), ...variables }
}

const TRUST = {
  SSL_CERT_FILE: AUTHORITIES, // OpenSSL: curl, Python, Ruby; Go
  GIT_SSL_CAINFO: AUTHORITIES, // git, whose libcurl may be built with GnuTLS
  REQUESTS_CA_BUNDLE: AUTHORITIES, // Python's requests, and pip
  NODE_EXTRA_CA_CERTS: AUTHORITIES, // Node
  NPM_CONFIG_CAFILE: AUTHORITIES, // npm, where a host may configure another file
} as const
