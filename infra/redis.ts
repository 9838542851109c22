// Owns our Redis: where its program is, its configuration, its access list, and the question whether it answers. It holds doorbells only.
// Never touches a Redis that it did not start, Debian's own service included.

import { existsSync, rmSync, symlinkSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { pdeathsig, type Spec } from './child-process.ts'
import { type Secrets, type State, sha256, writePrivate } from './state.ts'

/** What every key and channel of ours begins with; the access list admits nothing else. */
const REDIS_PREFIX = 'cs:'

/**
 * What BullMQ and ioredis use, by name, and nothing beside it (Q08). Scripts are needed: BullMQ's moves are Lua, and what a script does is
 * held to this list too. INFO is in @dangerous and tells no key; BullMQ reads the server's version from it and does not start without.
 * Left out on purpose: KEYS, SCAN, RANDOMKEY and DBSIZE, which look past the prefix; FLUSH*, CONFIG, ACL, MODULE, DEBUG, MIGRATE, SCRIPT.
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
 * Only digests of the passwords reach the file. Nobody can become `default`: it is off and has no password. Yet it may do everything,
 * because Redis replays its append-only file as this user, and drops in silence each transaction (so each BullMQ script) that this user
 * may not run.
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
# A doorbell lost is rung again by the edge, but late: an append-only file keeps them through a kill -9.
appendonly yes
appendfsync everysec
save ""
# An evicted key is a doorbell lost in silence; better refuse to take one.
maxmemory 256mb
maxmemory-policy noeviction
# A doorbell has some hundred bytes; what is read from here is parsed by the worker whole.
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
 * Debian's package redis-tools holds the one Redis program as redis-check-rdb; the package redis-server adds a name for it and a service
 * that starts at once, at every boot, on port 6379. We want the program and not the service: by which name it is called is what it
 * becomes.
 */
export function redisProgram(state: State): string | undefined {
  const served = ['/usr/bin/redis-server', '/usr/local/bin/redis-server'].find((path) => existsSync(path))
  if (served !== undefined || !existsSync('/usr/bin/redis-check-rdb')) return served
  const named = join(state.redis, 'redis-server')
  rmSync(named, { force: true })
  symlinkSync('/usr/bin/redis-check-rdb', named)
  return named
}

export function redisSpec(state: State, program: string, port: number, secrets: Secrets): Spec {
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

/** AUTH and PING in Redis's inline form: enough to know that it has loaded its data and knows our users. */
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
