// Programs of which an approval of one call says nothing about the next: interpreters, whose
// arguments or input are programs, and programs that calls can change. Interpreters are listed by
// name, because a plan has nothing else to go by; the list can't be complete. Pure.

import type { ProcessPlan } from '../../shared/plan/plan.ts'

const KINDS: readonly { readonly does: string; readonly names: string }[] = [
  {
    does: 'its arguments are a program',
    names: `
      sh bash dash zsh ksh mksh oksh loksh ash yash posh fish csh tcsh rbash rc es osh ysh nu xonsh elvish pwsh
      powershell busybox toybox
      python ipython bpython micropython jython graalpy pypy hy perl raku ruby irb jruby mruby node nodejs deno bun
      tsx ts-node qjs js d8 jsc php lua luajit tclsh wish expect
      awk gawk mawk nawk sed ed ex vi vim nvim view emacs guile racket scheme sbcl clisp ecl gforth swipl R Rscript
      julia octave
      java jshell groovy kotlin scala clojure erl elixir iex ghci runghc stack cabal ocaml dotnet mono swift go cargo
      gdb lldb m4 dc wasmtime wasmer qemu wine
      psql mysql mysqlsh mariadb sqlite sqlite3 duckdb sqlplus sqlcmd clickhouse cqlsh redis-cli valkey-cli mongo
      mongosh`,
  },
  {
    does: 'it runs the program that its arguments name',
    names: `
      env xargs parallel nice ionice nohup timeout setsid stdbuf time watch flock script unbuffer chrt choom prlimit
      setarch linux32 linux64 numactl taskset tini dumb-init chronic entr watchexec nodemon
      sudo su doas pkexec runuser setpriv capsh gosu su-exec chpst sg newgrp runcon chroot unshare nsenter bwrap
      firejail nsjail minijail0 proot fakeroot fakechroot ip strace ltrace perf valgrind ldd
      systemd-run systemd-nspawn machinectl start-stop-daemon dbus-run-session xvfb-run at batch crontab
      make gmake ninja cmake meson scons bazel gradle mvn ant sbt just task rake bundle gem tox nox invoke
      npm npx pnpm pnpx yarn bunx corepack pip pipx uv uvx poetry pdm hatch rye pixi conda mamba mise asdf direnv nix
      guix
      docker podman nerdctl buildah runc crun ctr lxc kubectl screen tmux git tar rsync socat nc ncat`,
  },
  {
    does: 'it runs commands on another host',
    names: 'ssh rsh dbclient plink mosh ansible salt',
  },
]

/** Programs that are interpreters only with these arguments. */
const WITH_ARGUMENT: readonly { readonly name: string; readonly argument: RegExp; readonly does: string }[] =
  [
    { name: 'find', argument: /^-(?:exec|ok)/, does: 'it runs the program that its arguments name' },
    { name: 'fd', argument: /^(?:-[^-]*[xX]|--exec)/, does: 'it runs the program that its arguments name' },
    {
      name: 'fdfind',
      argument: /^(?:-[^-]*[xX]|--exec)/,
      does: 'it runs the program that its arguments name',
    },
    { name: 'rg', argument: /^--(?:pre|hostname-bin)/, does: 'it runs the program that its arguments name' },
    { name: 'sort', argument: /^--compress-prog/, does: 'it runs the program that its arguments name' },
    { name: 'split', argument: /^--filter/, does: 'it runs the program that its arguments name' },
    { name: 'zip', argument: /^-[^-]*T|^--unzip/, does: 'it runs the program that its arguments name' },
  ]

const BY_NAME: ReadonlyMap<string, string> = new Map(
  KINDS.flatMap(({ does, names }) =>
    names
      .trim()
      .split(/\s+/)
      .map((name) => [name, does] as const),
  ),
)

/** The dynamic loader runs the program that its arguments name. */
const LOADER = /^ld(?:-linux.*|-musl.*)?\.so/

/** The name of the program without its path: `/usr/bin/sudo` and `./sudo` are `sudo`. */
export const programOf = ([first = '']: readonly string[]): string =>
  first
    .split('/')
    .filter((part) => part !== '')
    .at(-1) ?? ''

/**
 * The names under which the program may be listed: its own, and each beginning of it that ends in
 * front of something else than a letter. `python3.11-minimal`, `bash-static` and `busybox.static` are
 * variants of `python`, `bash` and `busybox`.
 */
const namesOf = (program: string): string[] => [
  program,
  ...[...program.matchAll(/[^A-Za-z]/g)].map(({ index }) => program.slice(0, index)),
]

/** Why the arguments of this command line are a program; `undefined` if they are not. */
export function interprets(argv: readonly string[]): string | undefined {
  const program = programOf(argv)
  if (LOADER.test(program)) return 'it runs the program that its arguments name'
  const known = namesOf(program).map((name) => BY_NAME.get(name))
  return (
    known.find((does) => does !== undefined) ??
    WITH_ARGUMENT.find(({ name, argument }) => name === program && argv.some((one) => argument.test(one)))
      ?.does
  )
}

/** Folders of a host that only its administrator changes. */
const SYSTEM_FOLDER = /^\/(?:usr|bin|sbin|lib|lib32|lib64|libx32|opt|nix|gnu|snap)\//

/**
 * Whether a call can change the program, because it is not in a system's folder: another call of the
 * run may have written `./build.sh`, and in tier B anything that the worker's user can write.
 */
export function isChangeable({ executor: { argv, env } }: ProcessPlan): boolean {
  const [program = ''] = argv
  const searched = (env['PATH'] ?? '/usr/bin').split(':').map((folder) => `${folder}/`)
  const places = program.includes('/') ? [program] : searched
  return places.some((place) => !SYSTEM_FOLDER.test(place) || place.split('/').includes('..'))
}
