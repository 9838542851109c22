// Lines on the way to people and back: channels, Slack, webhooks, the console, secrets, and the
// requests of workers.

import type { Held } from './mutant.ts'

export const PEOPLE: readonly Held[] = [
  {
    area: 'policy',
    file: 'edge/policy/lint.ts',
    tests: ['test/edge/policy/lint.test.ts'],
    titled: 'D17 lint',
    lines: [
      [
        "{ type: 'Tool', words: 'every tool' },",
        '',
        'Nobody is warned of a permit for every action on every tool.',
      ],
    ],
  },
  {
    area: 'approvals',
    file: 'edge/approvals/standing.ts',
    tests: ['test/edge/tools/interpreters.test.ts'],
    lines: [['!isChangeable(plan) &&', '', 'A yes to a script covers what another call writes into it.']],
  },
  {
    area: 'approvals',
    file: 'edge/tools/interpreters.ts',
    tests: ['test/edge/tools/interpreters.test.ts'],
    lines: [
      [
        "program.includes('/') ? [program] : searched",
        '[program]',
        'A call puts a program of its own into PATH, under the name of an approved one.',
      ],
      ['!SYSTEM_FOLDER.test(place) ||', '', 'A yes to a program covers one that a call writes in its place.'],
      [
        "|| place.split('/').includes('..')",
        '',
        'A path that begins in a system’s folder leads to a file of a call.',
      ],
      [
        '...[...program.matchAll(/[^A-Za-z]/g)].map(',
        '...[...program.matchAll(/[0-9]$/g)].map(',
        'A yes to bash-static covers any command.',
      ],
    ],
  },
  {
    area: 'ids',
    file: 'edge/api/agents.ts',
    tests: ['test/edge/run/lists.test.ts'],
    lines: [
      [
        'ok({ agent: name, since: Math.max(',
        'ok({ agent: undefined, since: Math.max(',
        'An agent lists the calls of every other agent.',
      ],
      [
        'Math.max(since ?? 0, createdAt)',
        'since ?? 0',
        'An agent lists the calls of an earlier agent that had its name.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/channels/slack/request.ts',
    tests: ['test/edge/channels/slack.test.ts'],
    lines: [
      [
        'sameText(signatureOf(secret, signed), signed.signature)',
        "sameText('', '')",
        'Anybody presses the buttons of a question in Slack.',
      ],
      ['timestamp}:$', "''}:$", 'An old press in Slack is sent again with a fresh time.'],
      [
        'Math.abs(now / 1000 - Number(timestamp))',
        '(now / 1000 - Number(timestamp))',
        'A request of Slack’s that was signed for later stays good until then.',
      ],
      [
        '<= LIMITS.slack_age_s',
        '<= LIMITS.slack_age_s * 10',
        'A captured press in Slack can be sent again for an hour.',
      ],
      [
        'data.user.team_id === undefined || data.user.team_id === data.team.id ? data.team.id',
        "data.user.team_id !== '' ? data.team.id",
        'A guest from another workspace answers as one of ours.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/channels/webhook.ts',
    tests: ['test/edge/channels/webhook.test.ts'],
    lines: [
      ['byteLength >= 24 &&', '', 'A webhook is signed with a key that can be guessed.'],
      ['{id}.', "{''}.", 'A receiver takes an old message under a new id.'],
      [
        "URL.canParse(url) ? new URL(url).origin : ''",
        'url',
        'A reader of a channel’s configuration gets the secret in its address.',
      ],
    ],
  },
  {
    area: 'addresses',
    file: 'edge/platform/outbound-fetch.ts',
    tests: ['test/edge/channels/webhook.test.ts'],
    lines: [
      [
        "if (url.username !== '' || url.password !== '') return",
        'if (false) return',
        'A password in a webhook’s address is sent and shown.',
      ],
      [
        "if (host.startsWith('[') || /^[\\d.]+$/.test(host)) return",
        'if (false) return',
        'The edge sends requests to a metadata service by its address.',
      ],
      [
        'if (!DOTTED_NAME.test(host) || INTERNAL_NAME.test(host))',
        'if (!DOTTED_NAME.test(host))',
        'The edge sends requests to hosts of its own network by their names.',
      ],
      [
        "if (url.protocol !== 'https:') return",
        'if (false) return',
        'Questions and links are sent in the clear.',
      ],
    ],
  },
  {
    area: 'addresses',
    file: 'edge/channels/post.ts',
    tests: ['test/edge/channels/webhook.test.ts'],
    lines: [
      [
        'if (fault !== undefined) return err({ again: false',
        'if (false) return err({ again: false',
        'The edge sends to a webhook that was stored before a rule forbade its address.',
      ],
      [
        "redirect: 'manual'",
        "redirect: 'follow'",
        'A webhook’s receiver redirects the edge to an address inside.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/channels/email/content.ts',
    tests: ['test/edge/channels/email.test.ts'],
    lines: [
      [
        "const line = (text: string): string => escapeConfusables(text).replaceAll('\\n', ' ')",
        'const line = (text: string): string => text',
        'A title from an agent adds lines to a mail’s head.',
      ],
      [
        'const block = (text: string): string => escapeConfusables(shorten(text, LIMITS.message_chars))',
        'const block = (text: string): string => shorten(text, LIMITS.message_chars)',
        'Text of an agent in a mail reads backwards or is invisible.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'edge/secrets/sealing.ts',
    tests: ['test/edge/secrets/sealing.test.ts'],
    lines: [
      [
        'if (this.#openWith(this.#key, secret) !== undefined) return undefined',
        'return undefined',
        'Secrets stay sealed under a key that was stolen, and are lost once it is forgotten.',
      ],
      [
        'canonical([this.#tenant, name, version])',
        'canonical([this.#tenant, version])',
        'An attacker who can write the disk swaps two secrets.',
      ],
      [
        'canonical([this.#tenant, name, version])',
        'canonical([this.#tenant, name])',
        'An attacker who can write the disk restores an old value of a secret.',
      ],
      [
        'const nonce = randomBytes(NONCE_BYTES)',
        'const nonce = Buffer.alloc(NONCE_BYTES)',
        'Two values under one nonce reveal each other, and the authentication key.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'edge/secrets/vault.ts',
    tests: ['test/edge/secrets/sealing.test.ts'],
    lines: [
      [
        'opened.get(secret)?.tools.includes(name) === true ? opened.get(secret) : undefined',
        'opened.get(secret)',
        'A tool is handed the secret of another one.',
      ],
      [
        'secrets.find((secret) => own(secret)?.hosts !== null)',
        'secrets.find((secret) => own(secret) === undefined)',
        'A secret that is bound to a host is handed to a process.',
      ],
    ],
  },
  {
    area: 'console',
    file: 'edge/console/session.ts',
    tests: ['test/edge/console/session.test.ts'],
    titled: 'K05|a decision needs a session|each page asks policy',
    lines: [
      [
        '; HttpOnly; SameSite=Strict',
        '; SameSite=Strict',
        'A script on a page of ours reads the session of an operator.',
      ],
      [
        '; HttpOnly; SameSite=Strict',
        '; HttpOnly; SameSite=None',
        'Another site sends requests with an operator’s session.',
      ],
      [
        'expected.byteLength === given.byteLength && timingSafeEqual(expected, given)',
        'expected.byteLength > 0 || given.byteLength > 0',
        'A form without its token decides in an operator’s session.',
      ],
      [
        'const owner = hash === null ? undefined : directory.keys.get(hash)',
        "const owner = directory.keys.get(hash ?? '') ?? [...directory.keys.values()].find(({ kind }) => kind === 'operator')",
        'Any cookie is the session of some operator.',
      ],
    ],
  },
  {
    area: 'console',
    file: 'edge/tenant/console-session-store.ts',
    tests: ['test/edge/console/session.test.ts'],
    titled: 'K03|K05 signing out',
    lines: [
      [
        'if (wrong >= LIMITS.sign_in_tries)',
        'if (false)',
        'An attacker can try keys at the console without limit.',
      ],
      [
        '.delete(consoleSessions).where(eq(consoleSessions.hash, hash))',
        ".delete(consoleSessions).where(eq(consoleSessions.hash, ''))",
        'A stolen cookie works after its owner has signed out.',
      ],
    ],
  },
  {
    area: 'workers',
    file: 'edge/workers/request-freshness.ts',
    tests: ['test/edge/workers/request-freshness.test.ts'],
    lines: [
      [
        '|| this.#older.has(id)',
        '',
        'A captured claim is sent again just after the memory of nonces was turned over, and its secrets are handed out.',
      ],
      ['this.#nonces.add(id)', '', 'A captured request is sent again.'],
      [
        'Math.abs(now - created) > LIMITS.signature_age_s',
        'created - now > LIMITS.signature_age_s',
        'A captured request is sent again long afterwards.',
      ],
      ['this.#older = this.#nonces', '', 'The nonces of the last minutes are forgotten at once.'],
    ],
  },
  {
    area: 'workers',
    file: 'edge/http/intake.ts',
    tests: ['test/edge/workers/identity.test.ts'],
    titled: 'K02|a signed request',
    lines: [['if (!isBy(x)) return err(UNSIGNED)', '', 'Anybody speaks as any worker.']],
  },
  {
    area: 'workers',
    file: 'edge/workers/eligibility.ts',
    tests: ['test/edge/workers/eligibility.test.ts'],
    lines: [
      [
        'proven.means.tiers.filter((tier) => tiers.includes(tier))',
        'tiers',
        'A worker gets calls of a tier that it has not proven.',
      ],
      [
        'proven.means.tiers.filter((tier) => tiers.includes(tier))',
        'proven.means.tiers',
        'A worker gets calls of a tier that it says it has lost.',
      ],
      [
        '|| now - proven.at > LIMITS.proof_ms',
        '',
        'A worker gets calls by an old proof, although its host may have changed.',
      ],
    ],
  },
  {
    area: 'workers',
    file: 'shared/evidence/worker-proof.ts',
    tests: ['test/shared/worker-proof.test.ts'],
    lines: [
      [
        'if (read.data.tenant !== tenant || read.data.worker !== id)',
        'if (read.data.tenant !== tenant)',
        'A worker shows the proof of another one for its own.',
      ],
      [
        'cgroups: proven.cgroups && reported.cgroups',
        'cgroups: reported.cgroups',
        'A worker without cgroups gets calls that are bound to them.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'shared/evidence/usage-rules.ts',
    tests: ['test/edge/run/settlement.test.ts'],
    lines: [
      [
        '(summary.truncated || sha256(kept) === summary.sha256)',
        'true',
        'A worker stores another output than its statement names.',
      ],
    ],
  },
  {
    area: 'evidence',
    file: 'edge/call/settlement.ts',
    tests: ['test/edge/run/settlement.test.ts'],
    lines: [
      [
        'if (first !== undefined) {',
        'if (first === null) {',
        'A worker has the edge countersign what its grant contradicts.',
      ],
      [
        'if (canonical(statement) !== new TextDecoder().decode(bytes))',
        'if (false)',
        'A statement is countersigned that no verifier accepts.',
      ],
    ],
  },
  {
    area: 'redis',
    file: 'infra/redis.ts',
    tests: ['test/faults/redis/redis-access.test.ts'],
    lines: [
      [
        '}* -@all',
        '}* allchannels -@all',
        'A holder of the worker’s password can subscribe to every channel of Redis.',
      ],
      [
        "const REDIS_PREFIX = 'cs:'",
        "const REDIS_PREFIX = ''",
        'A holder of the worker’s password reads and writes all other keys in Redis.',
      ],
      ['-@all $', '+@all $', 'A holder of the worker’s password runs any Redis command.'],
      [
        'user default off resetpass',
        'user default on nopass',
        'Anybody on the host can use Redis without a password.',
      ],
    ],
  },
  {
    area: 'planning',
    file: 'edge/tools/schema-rules.ts',
    tests: ['test/edge/tools/schema-rules.test.ts'],
    titled: 'G06 a pattern is refused|a reference out of the schema|a limit that is an object',
    lines: [
      [
        "!isAtMost(schema['maxItems'], LIMITS.schema_unique_items)",
        "Number(schema['maxItems']) > LIMITS.schema_unique_items",
        'One tool of a server makes the list of all its tools unreadable.',
      ],
      [
        'const LOCAL_REF = /^#\\/\\$defs\\/([A-Za-z0-9_.-]{1,64})$/',
        'const LOCAL_REF = /([A-Za-z0-9_.-]{1,64})$/',
        'A schema refers to a document outside itself.',
      ],
      [
        "['$schema', '$comment', 'title', 'description']",
        "['$schema', '$comment', 'title', 'description', 'pattern']",
        'A regular expression in a tool’s schema stalls the edge.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/argument-typing.ts',
    tests: ['test/edge/policy/schema.test.ts'],
    lines: [
      [
        'if (CEDAR_ESCAPES.has(name)) return',
        'if (false) return',
        'An argument passes for an entity of policy, such as an operator.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/check.ts',
    tests: ['test/edge/policy/validation.test.ts'],
    lines: [
      [
        'if (named.has(',
        "if (name === '' && named.has(",
        'A rule that is valid only for the tool that it names becomes active for equal tools, where it fails.',
      ],
      [
        'const kind = JSON.stringify(types)',
        'const kind = JSON.stringify(types.groups)',
        'A rule becomes active although it fails for a tool whose arguments have other types.',
      ],
      [
        'const kind = JSON.stringify(types)',
        'const kind = JSON.stringify(types.args)',
        'A rule becomes active although it is valid only for tools of skills and fails for another tool.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/schema.ts',
    tests: ['test/edge/policy/schema.test.ts'],
    lines: [
      [
        'const key = JSON.stringify(args)',
        "const key = ''",
        'A rule about one tool is checked against the arguments of another.',
      ],
    ],
  },
  {
    area: 'policy',
    file: 'edge/policy/text-limits.ts',
    tests: ['test/edge/policy/validation.test.ts'],
    titled: 'deep brackets',
    lines: [
      [
        'if (depth > LIMITS.policy_depth)',
        'if (false)',
        'A policy that is nested deeply ends the engine, and every decision with it.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/directory/agent-webhook.ts',
    tests: ['test/faults/channels/agent-webhook.test.ts'],
    lines: [
      [
        'if (present?.since !== since || present.spec.webhook === undefined) return undefined',
        'if (present?.spec.webhook === undefined) return undefined',
        'A new agent’s receiver learns what the former agent of that name did.',
      ],
      [
        '.update(JSON.stringify([tenant, agent, since, madeAt]))',
        '.update(JSON.stringify([tenant, agent, since]))',
        'A secret that leaked signs on after it was replaced.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/tenant/journal-store.ts',
    tests: ['test/edge/tenant/recorded-changes.test.ts'],
    lines: [
      [
        'journal.append(kind, { ...body, by })',
        '',
        'An admin makes another one, and nothing ever shows who it was.',
      ],
      [
        'delivery.soon(',
        '((done) => done)(',
        'Entries never reach the log, so that a thief of the key rewrites them.',
      ],
    ],
  },
  {
    area: 'tenants',
    file: 'edge/platform/cached-rows.ts',
    tests: ['test/edge/tenant/recorded-changes.test.ts'],
    lines: [['of this.#written)', 'of [])', 'A revoked key opens the tenant until the edge is restarted.']],
  },
  {
    area: 'secrets',
    file: 'edge/tenant/secret-store.ts',
    tests: ['test/edge/tenant/tenant-journal.test.ts'],
    lines: [
      [
        'version, tools, hosts: row.hosts }]',
        'version, tools, hosts: [value] }]',
        'The journal has secrets.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/channels/channel-object.ts',
    tests: ['test/edge/tenant/tenant-journal.test.ts'],
    lines: [
      [
        'if (!isSame) await',
        'if (false) await',
        'Questions go to another address, and nobody knows who did it.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/tenant/principal-store.ts',
    tests: ['test/faults/channels/agent-webhook.test.ts'],
    lines: [
      [
        'known?.spec.webhook?.url === spec.webhook?.url',
        'true',
        'The former receiver can sign messages to the new one.',
      ],
      [
        '[made, ...before.slice(0, 1)]',
        '[made, ...before]',
        'A secret that was rotated away twice still signs.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/tenant/principal-store.ts',
    tests: ['test/faults/channels/agent-webhook.test.ts'],
    titled: 'N14',
    lines: [
      [
        "if (fault !== undefined) return err(failure('channel_refused'",
        "if (false) return err(failure('channel_refused'",
        'An agent’s webhook is put with an address inside the network.',
      ],
    ],
  },
  {
    area: 'channels',
    file: 'edge/channels/store.ts',
    tests: ['test/faults/channels/agent-webhook.test.ts'],
    titled: 'full',
    lines: [
      [
        'if (excess <= 0) return wanted',
        'return wanted',
        'A receiver that never answers fills the edge’s disk.',
      ],
    ],
  },
]
