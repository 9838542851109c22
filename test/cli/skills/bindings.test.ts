// Promise: in each language with a template, the bindings reach every function of the world with
// the same arguments and results, errors of hosts included.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import type { CliResult } from '../../support/countersign.ts'
import { countersign } from '../../support/countersign.ts'
import { sharedStack, sharedState } from '../../support/stack/stack.ts'

sharedStack() // the commands below use it
const folder = mkdtempSync(join(tmpdir(), 'countersign-bindings-'))
afterAll(() => rmSync(folder, { recursive: true }))
const { PATH = '', HOME = '' } = process.env
const env = { COUNTERSIGN_STATE: sharedState(), XDG_CONFIG_HOME: join(folder, 'config'), PATH, HOME }
const run = (...args: readonly string[]): Promise<CliResult> => countersign(args, { cwd: folder, env })

const TOML = (id: string) => `format = "countersign-skill/v1"
id = "${id}"
version = "1.0.0"
publisher = "anybody"
description = "uses everything"
limits = {}
[capabilities]
log = true
clock = true
random = true
http = { hosts = ["api.example.com"], methods = ["POST"] }
secrets = ["token"]
kv = ["a/"]
channels = ["ops"]
[[tools]]
name = "all"
description = "uses everything"
input_schema = { type = "object" }
`

const URL = 'https://api.example.com/x?ü=1'
const TESTS = {
  about: 'everything that there is',
  tests: [
    {
      description: 'what goes well',
      tool: 'all',
      input: { how: 'well' },
      host: {
        clock: 1_700_000_000_123,
        random: '0102ff',
        secrets: { token: 'gehéim' },
        kv: { 'a/x': 'élan', 'a/y': '' },
        http: [
          {
            request: `POST ${encodeURI(URL)}`,
            status: 418,
            headers: { 'x-one': 'e', 'x-none': '' },
            body: 'kännchen',
          },
        ],
      },
      expect: {
        output: {
          now: 1_700_000_000_123,
          bytes: [1, 2, 255, 1],
          secret: 'gehéim',
          x: 'élan',
          y: '',
          none: true,
          keys: ['a/new', 'a/y'],
          status: 418,
          one: 'e',
          empty: '',
          body: 'kännchen',
        },
        log: 'warn: häm\n',
        requests: [{ request: `POST ${encodeURI(URL)}`, headers: { 'x-a': 'b' }, body: 'göt' }],
        kv: { 'a/new': 'wért', 'a/y': '' },
        posts: [{ channel: 'ops', text: 'höi' }],
      },
    },
    {
      description: 'what hosts refuse',
      tool: 'all',
      input: { how: 'badly' },
      host: { http: [{ request: `POST ${encodeURI(URL)}`, unreachable: true }] },
      expect: {
        output: { http: 'the host could not be reached', kv: 'a key may not have `..` as a segment' },
      },
    },
  ],
}

const JAVASCRIPT = `import { write } from 'countersign:skill/log'
import { now } from 'countersign:skill/clock'
import { bytes } from 'countersign:skill/random'
import { request } from 'countersign:skill/http'
import * as secrets from 'countersign:skill/secrets'
import * as kv from 'countersign:skill/kv'
import { post } from 'countersign:skill/channel'
const [to, from] = [new TextEncoder(), new TextDecoder()]
const why = (does) => { try { return does() } catch (error) { return error } }
export function run(tool, input) {
  const send = () => request('POST', '${URL}', 'x-a: b', to.encode('göt'))
  if (JSON.parse(input).how === 'badly') return JSON.stringify({ http: why(send), kv: why(() => kv.set('a/..', new Uint8Array())) })
  write('warn', 'häm')
  post('ops', 'höi')
  const x = from.decode(kv.get('a/x'))
  kv.set('a/new', to.encode('wért')); kv.delete('a/x')
  const { status, headers, body } = send()
  const header = (name) => headers.find(([one]) => one === name)[1]
  return JSON.stringify({ now: Number(now()), bytes: [...bytes(4)], secret: secrets.get('token'), x, y: from.decode(kv.get('a/y')), none: kv.get('a/z') === undefined,
    keys: kv.keys('a/'), status, one: header('x-one'), empty: header('x-none'), body: from.decode(body) })
}`

const ASSEMBLYSCRIPT = `import { Json, Kind } from './json'
import { channel, clock, http, kv, log, random, Result, returned, secrets } from './skill'
function bytesOf(text: string): Uint8Array { return Uint8Array.wrap(String.UTF8.encode(text)) }
function textOf(bytes: Uint8Array | null): string { return bytes == null ? '' : String.UTF8.decodeUnsafe(bytes.dataStart, bytes.length) }
function header(response: http.Response, name: string): string {
  for (let i = 0; i < response.headers.length; i++) if (response.headers[i][0] == name) return response.headers[i][1]
  return 'none'
}
export function run(tool: string, input: string): Result {
  const out = Json.object()
  const answer = http.request('POST', '${URL}', 'x-a: b', bytesOf('göt'))
  if (input.includes('badly')) {
    out.set('http', Json.of(answer.error!))
    out.set('kv', Json.of(kv.set('a/..', new Uint8Array(0))!))
    return returned(out.toString())
  }
  log.write('warn', 'häm')
  channel.post('ops', 'höi')
  const x = textOf(kv.get('a/x').value)
  kv.set('a/new', bytesOf('wért'))
  kv.remove('a/x')
  const response = answer.value!
  out.set('now', Json.count(<f64>clock.now()))
  const bytes = new Json(Kind.LIST)
  const drawn = random.bytes(4)
  for (let i = 0; i < drawn.length; i++) bytes.items.push(Json.count(drawn[i]))
  out.set('bytes', bytes)
  out.set('secret', Json.of(secrets.get('token').value))
  out.set('x', Json.of(x))
  out.set('y', Json.of(textOf(kv.get('a/y').value)))
  const none = new Json(Kind.BOOL)
  none.flag = kv.get('a/z').value == null
  out.set('none', none)
  const keys = new Json(Kind.LIST)
  const found = kv.keys('a/').value
  for (let i = 0; i < found.length; i++) keys.items.push(Json.of(found[i]))
  out.set('keys', keys)
  out.set('status', Json.count(response.status))
  out.set('one', Json.of(header(response, 'x-one')))
  out.set('empty', Json.of(header(response, 'x-none')))
  out.set('body', Json.of(textOf(response.body)))
  return returned(out.toString())
}`

const RUST = `mod json;
mod skill;
use json::Json;
use skill::{channel, clock, http, kv, log, random, secrets};

fn text(bytes: Vec<u8>) -> Json { Json::Text(String::from_utf8(bytes).unwrap()) }

pub fn run(_tool: &str, input: &str) -> Result<String, String> {
    let send = http::request("POST", "${URL}", "x-a: b", "göt".as_bytes());
    if Json::parse(input)?.text("how") == Some("badly") {
        let refused = kv::set("a/..", &[]).unwrap_err();
        return Ok(Json::object([("http", Json::Text(send.err().unwrap())), ("kv", Json::Text(refused))]).to_string());
    }
    log::write("warn", "häm");
    channel::post("ops", "höi")?;
    let x = text(kv::get("a/x")?.unwrap());
    kv::set("a/new", "wért".as_bytes())?;
    kv::delete("a/x")?;
    let http::Response { status, headers, body } = send?;
    let header = |name: &str| Json::Text(headers.iter().find(|(one, _)| one == name).unwrap().1.clone());
    Ok(Json::object([
        ("now", Json::Number(clock::now() as f64)),
        ("bytes", Json::List(random::bytes(4).into_iter().map(|one| Json::Number(one as f64)).collect())),
        ("secret", Json::Text(secrets::get("token")?)),
        ("x", x),
        ("y", text(kv::get("a/y")?.unwrap())),
        ("none", Json::Bool(kv::get("a/z")?.is_none())),
        ("keys", Json::List(kv::keys("a/")?.into_iter().map(Json::Text).collect())),
        ("status", Json::Number(status as f64)),
        ("one", header("x-one")),
        ("empty", header("x-none")),
        ("body", text(body)),
    ])
    .to_string())
}`

const rust = spawnSync('rustc', ['--print', 'target-libdir', '--target', 'wasm32-unknown-unknown'], {
  encoding: 'utf8',
})
const hasRust = rust.status === 0 && existsSync(rust.stdout.trim())

test.each([
  ['js', 'src/main.js', JAVASCRIPT, true],
  ['assemblyscript', 'assembly/tools.ts', ASSEMBLYSCRIPT, true],
  // Without Rust the build fails with advice, which authoring.test.ts checks.
  ['rust', 'src/lib.rs', RUST, hasRust],
])(
  'the bindings of the template `%s` reach every function of the world',
  async (template, main, code, canBuild) => {
    const id = `all-${template}`
    expect(await run('skill', 'new', id, '--template', template, '--publisher', 'anybody')).toMatchObject({
      code: 0,
      err: '',
    })
    for (const [path, text] of [
      ['skill.toml', TOML(id)],
      [main, code],
      ['tests/greet.json', JSON.stringify(TESTS)],
    ] as const) {
      mkdirSync(dirname(join(folder, id, path)), { recursive: true })
      writeFileSync(join(folder, id, path), text)
    }
    expect(readFileSync(join(folder, id, main), 'utf8')).toBe(code)
    const { code: exit, out, err } = await run('skill', 'test', id)
    if (canBuild) expect({ exit, err }, out).toEqual({ exit: 0, err: '' })
    else expect(err).toContain('rustup target add')
  },
)
