// Owns our Redis, which holds only doorbells: its program, configuration, access list and readiness
// check. Never touches a Redis that it did not start, such as Debian's service.

import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { type ChildSpec, pdeathsig } from './child-process.ts'
import { type Secrets, type State, sha256, writePrivate } from './state.ts'

/** The prefix of all our keys and channels; the access list permits no others. */
const REDIS_PREFIX = 'cs:'

/**
 * The commands that BullMQ and ioredis use, and no others (Q08). Scripts are needed, because BullMQ
 * is written in Lua; commands within a script are checked against this list too. INFO is in
 * @dangerous but reveals no key, and BullMQ reads the server's version from it. Left out on
 * purpose: KEYS, SCAN, RANDOMKEY and DBSIZE, which see past the prefix; FLUSH*, CONFIG, ACL,
 * MODULE, DEBUG, MIGRATE, SCRIPT.
 */
const COMMANDS = {
  connection: 'auth hello ping quit select reset echo client|setname client|getname client|id',
  server: 'info time command',
  scripts: 'eval evalsha',
  transactions: 'multi exec discard watch unwatch',
  channels: 'publish subscribe unsubscribe psubscribe punsubscribe',
  keys: 'del unlink exists expire pexpire pexpireat persist pttl ttl type rename',
  strings: 'get set setnx incr incrby decr mget',
  hashes: 'hget hset hmget hmset hgetall hdel hexists hincrby hlen hkeys hvals hsetnx hscan',
  lists:
    'lindex linsert llen lpop lpos lpush lrange lrem lset ltrim rpop rpoplpush rpush lmove blmove brpoplpush',
  sets: 'sadd scard sismember smembers srem sscan',
  sorted:
    'zadd zcard zcount zlexcount zpopmin bzpopmin zrange zrangebylex zrangebyscore zrem zremrangebyrank zremrangebyscore zrevrange zrevrangebyscore zscore zmscore zscan',
  streams: 'xadd xdel xlen xrange xrevrange xread xtrim',
} as const

const permitted = Object.values(COMMANDS)
  .flatMap((names) => names.split(' '))
  .map((name) => `+${name}`)
  .join(' ')

/**
 * Contains only digests of the passwords. Nobody can log in as `default`, which is off and has no
 * password. It still has all permissions, because Redis replays its append-only file as this user
 * and silently drops every transaction (so every BullMQ script) that the user may not run.
 */
export function redisAcl(secrets: Secrets): string {
  const user = (name: 'edge' | 'worker') =>
    `user ${name} on sanitize-payload #${sha256(secrets.redis[name])} resetkeys ~${REDIS_PREFIX}* resetchannels &${REDIS_PREFIX}* -@all ${permitted}`
  return ['user default off resetpass ~* &* +@all', user('edge'), user('worker'), ''].join('\n')
}

const redisConf = (state: State, port: number): string => `# Written at every start; changes here are lost.
bind 127.0.0.1
port ${port}
protected-mode yes
aclfile ${state.redis}/users.acl
acllog-max-len 128
dir ${state.redis}
dbfilename dump.rdb
# The edge rings a lost doorbell again, but late; an append-only file preserves them across a kill -9.
appendonly yes
appendfsync everysec
save ""
# Evicting a key would silently lose a doorbell; refusing a write is better.
maxmemory 256mb
maxmemory-policy noeviction
# A doorbell has a few hundred bytes, and the worker parses each value whole, so large values are refused.
proto-max-bulk-len 1mb
databases 1
enable-debug-command no
enable-module-command no
enable-protected-configs no
lua-time-limit 1000
maxclients 1000
tcp-keepalive 60
timeout 0
daemonize no
supervised no
loglevel notice
`

export const redisUrl = (user: 'edge' | 'worker', secrets: Secrets, port: number): string =>
  `redis://${user}:${secrets.redis[user]}@127.0.0.1:${port}`

/**
 * Debian's package redis-tools contains the Redis server program under the name redis-check-rdb;
 * the package redis-server only adds another name and a service on port 6379 that starts at once.
 * We want the program without the service, so we link it under the name that makes it a server.
 */
export function redisProgram(state: State): string | undefined {
  const served = ['/usr/bin/redis-server', '/usr/local/bin/redis-server'].find((path) => existsSync(path))
  if (served !== undefined || !existsSync('/usr/bin/redis-check-rdb')) return served
  const named = join(state.redis, 'redis-server')
  rmSync(named, { force: true })
  symlinkSync('/usr/bin/redis-check-rdb', named)
  return named
}

export function redisSpec(state: State, program: string, port: number, secrets: Secrets): ChildSpec {
  const conf = join(state.redis, 'redis.conf')
  writePrivate(join(state.redis, 'users.acl'), redisAcl(secrets))
  writePrivate(conf, redisConf(state, port))
  return {
    name: 'redis',
    argv: pdeathsig([program, conf]),
    env: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
    cwd: state.redis,
    log: join(state.log, 'redis.log'),
    ready: () => answers(port, 'edge', secrets.redis.edge),
    readyWithin_ms: 20_000,
    stopWithin_ms: 5_000,
  }
}

/** Sends AUTH and PING inline: PONG means that Redis has loaded its data and our users. */
const answers = (port: number, user: string, password: string): Promise<boolean> =>
  new Promise((settle) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`AUTH ${user} ${password}\r\nPING\r\n`))
    const done = (answer: boolean) => {
      socket.destroy()
      settle(answer)
    }
    let text = ''
    socket.setTimeout(1_000, () => done(false))
    socket.on('error', () => done(false))
    socket.on('close', () => done(false))
    socket.on('data', (chunk) => {
      text += chunk
      if (text.includes('PONG')) done(true)
      else if (text.includes('-')) done(false)
    })
  })
