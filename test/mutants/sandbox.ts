// Lines of the sandbox: its command line, its filter, its limits, and its way out to the network.

import type { Held } from './mutant.ts'

export const SANDBOX: readonly Held[] = [
  {
    area: 'addresses',
    file: 'worker/sandbox/network/public-address.ts',
    tests: ['test/escape/network/public-address.test.ts'],
    lines: [
      [
        "['169.254.0.0', 16]",
        "['169.254.0.0', 24]",
        'A tool reads the credentials of the host from a metadata service.',
      ],
      ["['10.0.0.0', 8]", "['10.0.0.0', 16]", 'A tool reaches machines of the private network.'],
      [
        "['100.64.0.0', 10]",
        "['100.64.0.0', 16]",
        'A tool reaches a cloud’s metadata service in the range of carriers.',
      ],
      ["['127.0.0.0', 8]", "['127.0.0.1', 32]", 'A tool reaches services of the worker’s host on loopback.'],
      [
        'f === 0xffff) return isPublic(dotted(high, low))',
        'f === 0xffff) return true',
        'A private address is written as one of IPv6.',
      ],
      [
        'b === 0xff9b && zeroes && f === 0) return isPublic(dotted(high, low))',
        'b === 0xff9b && zeroes && f === 0) return true',
        'A private address is reached through a translator of addresses.',
      ],
      ["['2002::', 16]", "['2002::', 128]", 'A private address hides in one of 6to4.'],
      [
        'return (a & 0xe000) === 0x2000 && !refusedV6',
        'return !refusedV6',
        'Link-local and private addresses of IPv6 are reached.',
      ],
    ],
  },
  {
    area: 'addresses',
    file: 'worker/sandbox/network/host-patterns.ts',
    tests: ['test/escape/network/public-address.test.ts'],
    lines: [
      [
        '|| answers.every(isPublic) ? ok',
        '|| answers.some(isPublic) ? ok',
        'A name with one public and one private answer leads inside.',
      ],
      [
        '[A-Za-z0-9._-]+):([0-9]{1,5})$/',
        '[A-Za-z0-9._@-]+):([0-9]{1,5})$/',
        'The check reads a text as a host that the connection reads as a user.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/relay.ts',
    tests: ['test/escape/network/relay.test.ts'],
    titled: 'a relay counts as dead',
    lines: [
      [
        'isRunning(this.#holder) && runsNow(this.pid)',
        'isRunning(this.#holder)',
        'A call gets a relay that has ended, and reaches none of its hosts.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/tls-client-hello.ts',
    tests: ['test/escape/network/public-address.test.ts'],
    lines: [
      [
        'if (type === ENCRYPTED_CLIENT_HELLO) return MALFORMED',
        '',
        'The real name that a tool asks for is hidden from the proxy.',
      ],
      [
        'if (name !== undefined) return MALFORMED',
        '',
        'A second server name, which the host may take, is not judged.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/egress.ts',
    tests: ['test/escape/network/http-proxy.test.ts'],
    lines: [
      [
        'given.length === this.#authorization.length && timingSafeEqual(given, this.#authorization)',
        'given.length > 0',
        'Another process of the host uses the network of a call.',
      ],
      [
        "if (!isListed(this.#rules.hosts, to)) return this.refuse('host_not_listed', to)",
        '',
        'A tool reaches every public host.',
      ],
      ['if (total <= this.#limits.bytes) return', 'return', 'A tool sends as much as it likes.'],
      [
        "if (this.#bytesOfClosed > this.#limits.bytes) entry.verdict = 'cap'",
        '',
        'A fast transfer exceeds the limit, and nothing says so.',
      ],
      [
        'this.#entries.length + this.#unknownClients + this.#dialling >= this.#limits.connections ||',
        '',
        'A tool makes as many connections as it likes.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/http-proxy.ts',
    tests: ['test/escape/network/http-proxy.test.ts', 'test/escape/network/hop-by-hop.test.ts'],
    lines: [
      [
        "  'upgrade',\n",
        '',
        'A tool has a host change protocols, and the proxy no longer checks what follows.',
      ],
      ["  'proxy-authorization',\n", '', 'The token of a call’s proxy is sent to the hosts that it reaches.'],
      [
        '    host,\n    connection:',
        '    host: incoming.headers.host ?? host,\n    connection:',
        'A tool reaches another site behind the address of a listed host.',
      ],
      [
        '    ...framing(incoming.headers),\n',
        '',
        'The body of a request is read by the host as a second one that nobody judged.',
      ],
      [
        'if (head.length > 0) client.unshift(head)',
        '',
        'Bytes that arrive with CONNECT are lost or parsed as another request.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/tunnel.ts',
    tests: ['test/escape/network/http-proxy.test.ts'],
    titled: 'N11',
    lines: [
      [
        'if (to.port === TLS_PORT && !(await namesHost(client, to.host))) return mismatch()',
        '',
        'A tool reaches another site behind the address of a listed host, in TLS.',
      ],
      [
        "hello.kind === 'name' && hello.name === expected",
        "hello.kind === 'name'",
        'A tool names any site in its TLS.',
      ],
    ],
  },
  {
    area: 'egress',
    file: 'worker/sandbox/network/socks5.ts',
    tests: ['test/escape/network/socks5.test.ts'],
    titled: 'N12|N01',
    lines: [
      [
        'version === PASSWORD.version && egress.authenticates(',
        'version === PASSWORD.version || egress.authenticates(',
        'Another process of the host uses the network of a call, by SOCKS.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'worker/sandbox/network/credentials.ts',
    tests: ['test/escape/network/added-credentials.test.ts'],
    lines: [
      ['port}` && addition.over === over', 'port}`', 'A credential that is for TLS is sent in the clear.'],
      [
        'addition.host === `',
        "addition.host !== '' || addition.host === `",
        'A credential is sent to every host that the call reaches.',
      ],
    ],
  },
  {
    area: 'secrets',
    file: 'worker/sandbox/network/tls-intercept.ts',
    tests: ['test/escape/network/tls-intercept.test.ts'],
    lines: [
      [
        'ca: trust, ALPNProtocols: HTTP',
        'rejectUnauthorized: false, ALPNProtocols: HTTP',
        'An attacker between the worker and a host receives the credential.',
      ],
      [
        'isIP(to.host) === 0 && requestedName(inner) !== to.host',
        'false',
        'A tool has the credential sent for another name behind the same address.',
      ],
    ],
  },
  {
    area: 'sandbox',
    file: 'worker/sandbox/plan/profiles.ts',
    tests: ['test/escape/plan/argv.test.ts'],
    lines: [
      [
        "namespaces: ['--unshare-all', '--unshare-user']",
        "namespaces: ['--unshare-user', '--unshare-ipc', '--unshare-pid']",
        'A tool without hosts has the network of the worker.',
      ],
      [
        "'--unshare-ipc', '--unshare-pid'",
        "'--unshare-ipc'",
        'A tool sees and signals the processes of the host.',
      ],
      [
        "...['--disable-userns', '--assert-userns-disabled'],",
        '',
        'A tool makes a user namespace and with it reaches more of the kernel.',
      ],
      ["...['--cap-drop', 'ALL'],", '', 'A tool keeps capabilities.'],
      [
        "'--uid', '65534', '--gid', '65534',",
        "'--uid', '0', '--gid', '0',",
        'A tool is root of its namespace.',
      ],
      ["  '--new-session',", '', 'A tool types into the terminal of whoever started the worker.'],
      ["  '--die-with-parent',", '', 'A tool outlives the worker that was killed.'],
      [
        "...['--ro-bind', '/usr', '/usr',",
        "...['--bind', '/usr', '/usr',",
        'A tool changes programs of the host, where the user may.',
      ],
      [
        "'--tmpfs', '/dev/shm', '--remount-ro', '/dev']",
        "'--tmpfs', '/dev/shm']",
        'A tool fills the memory of the host through /dev.',
      ],
      ["...['--remount-ro', '/'],", '', 'A tool fills the memory of the host through its root.'],
      ["  '--clearenv',", '', 'A tool reads the worker’s environment.'],
    ],
  },
  {
    area: 'limits',
    file: 'worker/sandbox/plan/profiles.ts',
    tests: ['test/escape/plan/argv.test.ts'],
    lines: [
      ["{ flag: '--fsize',", "{ flag: '--sigpending',", 'A tool writes one file until the disk is full.'],
      [
        "{ flag: '--core', value: () => 0 }",
        "{ flag: '--core', value: () => 1_000_000 }",
        'A tool that crashes leaves its arguments on disk.',
      ],
      [
        "{ flag: '--nofile', value: ({ open_files }) => open_files }",
        "{ flag: '--nofile', value: () => 1_000_000 }",
        'A tool uses up the files of the host.',
      ],
      ["{ flag: '--data',", "{ flag: '--as',", 'Each process of a tool has as much memory as the host.'],
      [
        "{ flag: '--msgqueue', value: () => 0 }",
        "{ flag: '--msgqueue', value: () => 800_000 }",
        'A tool fills the message queues of its user.',
      ],
      ['value: ({ pids }) => pids + 1', 'value: () => 100_000', 'A tool starts processes without end.'],
    ],
  },
  {
    area: 'sandbox',
    file: 'worker/sandbox/kernel/init.ts',
    tests: ['test/escape/process/endings.test.ts'],
    titled: 'cold, without cgroups.*ending by .*exit',
    lines: [
      [
        'mov edi, 4\n      31f6                   xor esi, esi',
        'mov edi, 4\n      ffc6                   inc esi',
        'A tool overwrites the memory of the init of its sandbox.',
      ],
    ],
  },
  {
    area: 'sandbox',
    file: 'worker/sandbox/process/orphans.ts',
    tests: ['test/escape/process/orphans.test.ts'],
    lines: [
      [
        'if (mark === undefined || isRunningSince(mark.worker, startOf(name))) continue',
        'continue',
        'A daemon of a tier B call goes on after its worker was killed, next to the calls of the next worker.',
      ],
      [
        'if (mark === undefined || isRunningSince(mark.worker, startOf(name))) continue',
        'if (mark === undefined) continue',
        'The start of a worker ends the calls of another running worker of the same user.',
      ],
      [
        '!isBubblewrap(maker)',
        'isBubblewrap(maker)',
        'Sandboxes of a dead worker keep running, and those of a living one are ended.',
      ],
      [
        "(maker === '1' || !isBubblewrap(maker))",
        '!isBubblewrap(maker)',
        'In a container that bubblewrap made, sandboxes of a dead worker keep running.',
      ],
    ],
  },
  {
    area: 'sandbox',
    file: 'worker/calls/run-folders.ts',
    tests: ['test/worker/calls/run-folders.test.ts'],
    lines: [
      [
        'for (const run of tainted) this.taint(run)',
        '',
        'A call runs a file that a surviving process of another call left in the run’s folder.',
      ],
    ],
  },
  {
    area: 'sandbox',
    file: 'worker/sandbox/plan/argv.ts',
    tests: ['test/escape/plan/argv.test.ts'],
    lines: [
      [
        "'--', INIT, ...argv]",
        'INIT, ...argv]',
        'A program whose name begins with a dash gives options to bubblewrap.',
      ],
      ['    ...OUR_INIT,\n', '', 'A tool takes over the init of its sandbox, and outlives its call.'],
      [
        "'--perms', '0400', '--file'",
        "'--perms', '0444', '--file'",
        'Others in the sandbox read a secret that is for its user.',
      ],
      [
        "['--ro-bind', inputs, INPUT_FOLDER]",
        "['--bind', inputs, INPUT_FOLDER]",
        'A tool changes the files that were approved before another process of it reads them.',
      ],
    ],
  },
  {
    area: 'seccomp',
    file: 'worker/sandbox/kernel/seccomp.ts',
    tests: ['test/escape/kernel/seccomp.test.ts'],
    lines: [
      ['...when(TIOCSTI, EPERM), ', '', 'A tool types into the terminal of whoever started the worker.'],
      ['...when(TIOCLINUX, EPERM)', '', 'A tool pastes into a console of the host.'],
      [
        'clone: [load(argument(0)), ...whenAnyBit(CLONE_NEW, EPERM)],',
        'clone: [load(argument(0))],',
        'A tool makes namespaces by clone.',
      ],
      [
        'const CLONE_NEW = 0x7e020000',
        'const CLONE_NEW = 0x6e020000',
        'A tool makes a user namespace by clone.',
      ],
      [
        'no_sockets: [give(EAFNOSUPPORT)]',
        'no_sockets: [give(ALLOW)]',
        'A tool without a network talks to sockets of the host, or to its hypervisor.',
      ],
      [
        '...unlessOneOf([AF_INET, AF_INET6], EAFNOSUPPORT)',
        '...unlessOneOf([AF_UNIX, AF_INET, AF_INET6], EAFNOSUPPORT)',
        'A tool with hosts connects to a socket file that it can reach.',
      ],
      ['...unlessOneOf([SOCK_STREAM, SOCK_DGRAM], EPROTONOSUPPORT),', '', 'A tool opens raw sockets.'],
      [
        'const outOfBand = (flags: number): Judge => [load(argument(flags)), ...whenAnyBit(MSG_OOB, EPERM)]',
        'const outOfBand = (flags: number): Judge => [load(argument(flags))]',
        'A tool reaches the kernel’s code for urgent data, which had vulnerabilities.',
      ],
      [
        'const SETID = 0o6000',
        'const SETID = 0o4000',
        'A tool leaves a program on the host that runs as another group.',
      ],
      [
        '[JUMP_EQUAL, 1, 0, AUDIT_ARCH[machine]]',
        '[JUMP_EQUAL, 1, 1, AUDIT_ARCH[machine]]',
        'A tool makes 32-bit system calls, which the filter reads wrongly.',
      ],
      [
        '[JUMP_GREATER, 0, 1, LAST_REVIEWED]',
        '[JUMP_GREATER, 1, 1, LAST_REVIEWED]',
        'A tool uses system calls that nobody has reviewed, and those of x32.',
      ],
      [
        '...unlessOneOf([SOCK_STREAM, SOCK_SEQPACKET], EPROTONOSUPPORT)]',
        ']',
        'A pair of datagram sockets is pointed at a socket of the host.',
      ],
      [
        'const CREATES = 0o100 | 0o20000000',
        'const CREATES = 0o100',
        'A nameless file is made with a set-user bit.',
      ],
    ],
  },
  {
    area: 'seccomp',
    file: 'worker/sandbox/kernel/syscalls.ts',
    tests: ['test/escape/kernel/seccomp.test.ts'],
    lines: [
      [
        "ptrace: [101, 117, 'forbidden']",
        "ptrace: [10_101, 10_117, 'forbidden']",
        'A tool takes over the other processes of its sandbox.',
      ],
      [
        "keyctl: [250, 219, 'forbidden']",
        "keyctl: [10_250, 10_219, 'forbidden']",
        'A tool reads the keyring that it shares with other calls.',
      ],
      [
        "bpf: [321, 280, 'forbidden']",
        "bpf: [10_321, 10_280, 'forbidden']",
        'A tool loads programs into the kernel.',
      ],
      [
        "mount: [165, 40, 'forbidden']",
        "mount: [10_165, 10_040, 'forbidden']",
        'A tool mounts what it likes.',
      ],
      [
        "io_uring_setup: [425, 425, 'absent']",
        "io_uring_setup: [10_425, 10_425, 'absent']",
        'A tool makes system calls that no filter sees.',
      ],
      [
        "clone3: [435, 435, 'absent']",
        "clone3: [10_435, 10_435, 'absent']",
        'A tool makes namespaces by a call whose arguments no filter sees.',
      ],
      [
        "open_by_handle_at: [304, 265, 'forbidden']",
        "open_by_handle_at: [10_304, 10_265, 'forbidden']",
        'A tool opens files of the host by number.',
      ],
      [
        "perf_event_open: [298, 241, 'forbidden']",
        "perf_event_open: [10_298, 10_241, 'forbidden']",
        'A tool measures other processes of the host.',
      ],
      [
        "setns: [308, 268, 'forbidden']",
        "setns: [10_308, 10_268, 'forbidden']",
        'A tool enters another namespace.',
      ],
    ],
  },
  {
    area: 'limits',
    file: 'worker/sandbox/limits/cgroups.ts',
    tests: ['test/escape/limits/limits.test.ts'],
    titled: 'S28 many|S27 tier B',
    lines: [
      [
        "{ file: 'memory.limit_in_bytes', value: `$",
        "{ file: 'memory.limit_in_bytes', value: `9$",
        'Many small processes of a tool use up the memory of the host.',
      ],
    ],
  },
  {
    area: 'limits',
    file: 'worker/sandbox/streams/output-capture.ts',
    tests: ['test/escape/files/output.test.ts'],
    lines: [
      [
        'if (this.#bytes > this.#cap * FLOOD_FACTOR) this.#onFlood()',
        '',
        'A tool keeps the worker busy with output that nobody will read.',
      ],
    ],
  },
]
