// Interpreters: programs whose arguments or input are programs, so that an approval of one call
// says nothing about the next. They are listed by name, because a plan has nothing else to go by;
// the list can't be complete. Pure.

/** Names are compared without a version: `python3.11` is `python`. */
const KINDS: readonly { readonly does: string; readonly names: readonly string[] }[] = [
  {
    does: 'its arguments are a program',
    names: [
      ...[
        'sh',
        'bash',
        'dash',
        'zsh',
        'ksh',
        'mksh',
        'ash',
        'fish',
        'csh',
        'tcsh',
        'rbash',
        'pwsh',
        'busybox',
        'toybox',
      ],
      ...[
        'python',
        'pypy',
        'perl',
        'ruby',
        'irb',
        'node',
        'nodejs',
        'deno',
        'bun',
        'php',
        'lua',
        'luajit',
        'tclsh',
        'wish',
        'expect',
      ],
      ...[
        'awk',
        'gawk',
        'mawk',
        'nawk',
        'sed',
        'ed',
        'ex',
        'vi',
        'vim',
        'nvim',
        'emacs',
        'guile',
        'R',
        'Rscript',
        'julia',
        'octave',
      ],
      ...[
        'java',
        'jshell',
        'groovy',
        'scala',
        'erl',
        'elixir',
        'ghci',
        'runghc',
        'ocaml',
        'go',
        'cargo',
        'gdb',
        'lldb',
        'm4',
        'dc',
      ],
      ...['psql', 'mysql', 'mariadb', 'sqlite', 'sqlite3', 'redis-cli', 'mongosh'],
    ],
  },
  {
    does: 'it runs the program that its arguments name',
    names: [
      ...[
        'env',
        'xargs',
        'parallel',
        'nice',
        'ionice',
        'nohup',
        'timeout',
        'setsid',
        'stdbuf',
        'time',
        'watch',
        'flock',
        'script',
        'chrt',
      ],
      ...[
        'sudo',
        'su',
        'doas',
        'pkexec',
        'runuser',
        'setpriv',
        'chroot',
        'unshare',
        'nsenter',
        'bwrap',
        'strace',
        'ltrace',
        'taskset',
      ],
      ...[
        'systemd-run',
        'start-stop-daemon',
        'at',
        'batch',
        'crontab',
        'make',
        'gmake',
        'ninja',
        'npm',
        'npx',
        'pnpm',
        'yarn',
        'pip',
        'pipx',
        'uv',
      ],
      ...[
        'docker',
        'podman',
        'nerdctl',
        'kubectl',
        'screen',
        'tmux',
        'git',
        'tar',
        'rsync',
        'socat',
        'nc',
        'ncat',
      ],
    ],
  },
  {
    does: 'it runs commands on another host',
    names: ['ssh', 'rsh', 'dbclient', 'plink', 'mosh', 'ansible', 'salt'],
  },
]

/** Programs that are interpreters only with these arguments. */
const WITH_ARGUMENT: readonly { readonly name: string; readonly argument: RegExp; readonly does: string }[] =
  [
    { name: 'find', argument: /^-(?:exec|ok)/, does: 'it runs the program that its arguments name' },
    { name: 'fd', argument: /^(?:-[^-]*[xX]|--exec)/, does: 'it runs the program that its arguments name' },
    { name: 'rg', argument: /^--(?:pre|hostname-bin)/, does: 'it runs the program that its arguments name' },
  ]

const BY_NAME: ReadonlyMap<string, string> = new Map(
  KINDS.flatMap(({ does, names }) => names.map((name) => [name, does] as const)),
)

/** The dynamic loader runs the program that its arguments name. */
const LOADER = /^ld(?:-linux.*|-musl.*)?\.so/

/** The name of the program without its path: `/usr/bin/sudo` and `./sudo` are `sudo`. */
export const programOf = ([first = '']: readonly string[]): string =>
  first
    .split('/')
    .filter((part) => part !== '')
    .at(-1) ?? ''

/** Why the arguments of this command line are a program; `undefined` if they are not. */
export function interprets(argv: readonly string[]): string | undefined {
  const program = programOf(argv)
  if (LOADER.test(program)) return 'it runs the program that its arguments name'
  const known = BY_NAME.get(program) ?? BY_NAME.get(program.replace(/[\d.]+$/, ''))
  return (
    known ??
    WITH_ARGUMENT.find(({ name, argument }) => name === program && argv.some((one) => argument.test(one)))
      ?.does
  )
}
