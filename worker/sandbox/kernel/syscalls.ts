// Owns the table of system calls that the seccomp filter names: their numbers on each machine, and
// their verdicts. The kernel never changes a number. seccomp.ts compiles verdicts and checks
// arguments.

export type Machine = 'x86_64' | 'aarch64'

/** AUDIT_ARCH_* of linux/audit.h. */
export const AUDIT_ARCH: Readonly<Record<Machine, number>> = { x86_64: 0xc000003e, aarch64: 0xc00000b7 }

/**
 * The newest call that was reviewed (file_setattr, Linux 6.17). Both machines share all numbers
 * since 424. Newer calls fail with ENOSYS.
 */
export const LAST_REVIEWED = 469

export function machineOf(arch: string): Machine | undefined {
  return ({ x64: 'x86_64', arm64: 'aarch64' } as const)[arch]
}

/**
 * forbidden: EPERM. absent: ENOSYS, for calls whose arguments lie in memory, where no filter can
 * check them, or that bypass filters; programs fall back to older calls. judged: depends on its
 * arguments.
 */
export type Verdict = 'forbidden' | 'absent' | 'judged'

/** The number of a call that a machine lacks. */
const NONE = undefined

const TABLE = {
  // Judged by their arguments. First, because the kernel can't answer these from its cache of
  // constant verdicts.
  openat: [257, 56, 'judged'],
  open: [2, NONE, 'judged'],
  ioctl: [16, 29, 'judged'],
  fcntl: [72, 25, 'judged'],
  clone: [56, 220, 'judged'],
  socket: [41, 198, 'judged'],
  socketpair: [53, 199, 'judged'],
  sendto: [44, 206, 'judged'],
  sendmsg: [46, 211, 'judged'],
  sendmmsg: [307, 269, 'judged'],
  recvfrom: [45, 207, 'judged'],
  recvmsg: [47, 212, 'judged'],
  recvmmsg: [299, 243, 'judged'],
  chmod: [90, NONE, 'judged'],
  fchmod: [91, 52, 'judged'],
  fchmodat: [268, 53, 'judged'],
  creat: [85, NONE, 'judged'],
  // Keyrings (S08), other processes (S09), kernel programs (S11).
  add_key: [248, 217, 'forbidden'],
  keyctl: [250, 219, 'forbidden'],
  request_key: [249, 218, 'forbidden'],
  ptrace: [101, 117, 'forbidden'],
  process_vm_readv: [310, 270, 'forbidden'],
  process_vm_writev: [311, 271, 'forbidden'],
  kcmp: [312, 272, 'forbidden'],
  pidfd_getfd: [438, 438, 'forbidden'],
  bpf: [321, 280, 'forbidden'],
  perf_event_open: [298, 241, 'forbidden'],
  userfaultfd: [323, 282, 'forbidden'],
  // Namespaces and mounts.
  unshare: [272, 97, 'forbidden'],
  setns: [308, 268, 'forbidden'],
  mount: [165, 40, 'forbidden'],
  umount2: [166, 39, 'forbidden'],
  pivot_root: [155, 41, 'forbidden'],
  chroot: [161, 51, 'forbidden'],
  listmount: [458, 458, 'forbidden'],
  statmount: [457, 457, 'forbidden'],
  clone3: [435, 435, 'absent'],
  open_tree: [428, 428, 'absent'],
  open_tree_attr: [467, 467, 'absent'],
  move_mount: [429, 429, 'absent'],
  fsopen: [430, 430, 'absent'],
  fsconfig: [431, 431, 'absent'],
  fsmount: [432, 432, 'absent'],
  fspick: [433, 433, 'absent'],
  mount_setattr: [442, 442, 'absent'],
  // The machine: log, accounting, memory placement (S15), modules, clock, names.
  syslog: [103, 116, 'forbidden'],
  acct: [163, 89, 'forbidden'],
  quotactl: [179, 60, 'forbidden'],
  quotactl_fd: [443, 443, 'forbidden'],
  uselib: [134, NONE, 'forbidden'],
  move_pages: [279, 239, 'forbidden'],
  mbind: [237, 235, 'forbidden'],
  get_mempolicy: [239, 236, 'forbidden'],
  set_mempolicy: [238, 237, 'forbidden'],
  set_mempolicy_home_node: [450, 450, 'forbidden'],
  migrate_pages: [256, 238, 'forbidden'],
  modify_ldt: [154, NONE, 'forbidden'],
  personality: [135, 92, 'forbidden'],
  kexec_load: [246, 104, 'forbidden'],
  kexec_file_load: [320, 294, 'forbidden'],
  init_module: [175, 105, 'forbidden'],
  finit_module: [313, 273, 'forbidden'],
  delete_module: [176, 106, 'forbidden'],
  swapon: [167, 224, 'forbidden'],
  swapoff: [168, 225, 'forbidden'],
  reboot: [169, 142, 'forbidden'],
  iopl: [172, NONE, 'forbidden'],
  ioperm: [173, NONE, 'forbidden'],
  settimeofday: [164, 170, 'forbidden'],
  clock_settime: [227, 112, 'forbidden'],
  clock_adjtime: [305, 266, 'forbidden'],
  adjtimex: [159, 171, 'forbidden'],
  sethostname: [170, 161, 'forbidden'],
  setdomainname: [171, 162, 'forbidden'],
  vhangup: [153, 58, 'forbidden'],
  // Files: calls that bypass paths, or that no tool needs.
  open_by_handle_at: [304, 265, 'forbidden'],
  name_to_handle_at: [303, 264, 'forbidden'],
  fanotify_init: [300, 262, 'forbidden'],
  lookup_dcookie: [212, 18, 'forbidden'],
  mknod: [133, NONE, 'forbidden'],
  mknodat: [259, 33, 'forbidden'],
  vmsplice: [278, 75, 'forbidden'],
  memfd_secret: [447, 447, 'forbidden'],
  openat2: [437, 437, 'absent'],
  fchmodat2: [452, 452, 'absent'],
  // io_uring makes system calls without the system call entry, so no filter sees them (S10).
  io_uring_setup: [425, 425, 'absent'],
  io_uring_enter: [426, 426, 'absent'],
  io_uring_register: [427, 427, 'absent'],
} as const satisfies Record<string, readonly [number, number | undefined, Verdict]>

/** Calls that the filter does not name and that canaries make. */
const HARMLESS = {
  write: [1, 64],
  connect: [42, 203],
  setuid: [105, 146],
  exit_group: [231, 94],
  fallocate: [285, 47],
  mmap: [9, 222],
} as const

type Table = typeof TABLE
/** Calls that both machines have. */
export type Named =
  | keyof typeof HARMLESS
  | { [Call in keyof Table]: Table[Call][1] extends number ? Call : never }[keyof Table]

export const numberOf = (call: Named, machine: Machine): number => {
  const [x86_64, aarch64] =
    call in HARMLESS ? HARMLESS[call as keyof typeof HARMLESS] : TABLE[call as keyof Table] // not in HARMLESS
  return machine === 'x86_64' ? x86_64 : (aarch64 ?? x86_64) // both machines have each call of `Named`
}

export type Judged = { [Call in keyof Table]: Table[Call][2] extends 'judged' ? Call : never }[keyof Table]

export type Entry = { readonly call: string; readonly number: number; readonly verdict: Verdict }

/** The table's calls that `machine` has. */
export function syscallsOf(machine: Machine): Entry[] {
  return Object.entries(TABLE).flatMap(([call, [x86_64, aarch64, verdict]]) => {
    const number = machine === 'x86_64' ? x86_64 : aarch64
    return number === undefined ? [] : [{ call, number, verdict }]
  })
}
