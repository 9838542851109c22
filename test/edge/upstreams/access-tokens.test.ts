// Promise: a token endpoint’s answer is read up to a bound.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { UpstreamRequests } from '../../../edge/upstreams/requests.ts'
import { accessToken } from '../../../edge/upstreams/tokens.ts'

test('U05 a token endpoint’s answer has at most 64 KiB (`upstream_token_bytes`)', async () => {
  let bytes = 0
  const endpoint = createServer((_, answer) =>
    answer.end(JSON.stringify({ access_token: 'a-token-1', token_type: 'Bearer' }).padEnd(bytes)),
  )
  onTestFinished(() => void endpoint.close())
  await new Promise<void>((settle) => endpoint.listen(0, '127.0.0.1', settle))
  const at = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}` // the address of a TCP server
  const token = async (size: number) => {
    bytes = size
    const requests = new UpstreamRequests({
      hosts: ['auth.example.com:443'],
      bytes: 1_000_000,
      requests: 1,
      outside: { fetch: (url, init) => fetch(url, init) },
      standIns: { 'https://auth.example.com': at },
      signal: AbortSignal.timeout(10_000),
    })
    const auth = {
      kind: 'client_credentials',
      token_url: 'https://auth.example.com/token',
      client_id: 'c',
      secret: 's',
    } as const
    return accessToken(requests, auth, {
      url: `https://mcp.example.com/${size}`,
      secret: 'secret',
      refused: null,
    })
  }
  expect(await token(65_536)).toEqual({ ok: true, value: 'a-token-1' })
  expect(await token(65_537)).toEqual({ ok: false, error: 'the token endpoint’s answer is too large' })
})
