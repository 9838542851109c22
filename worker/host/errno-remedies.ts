// Advice for operators, by errno.

const OWNER = 'chown it to the user that runs the worker'
const SPACE = 'free space on its disk'
const FILES = 'raise the limit of open files'

const REMEDIES = new Map([
  ['ENOSPC', SPACE],
  ['EDQUOT', SPACE],
  ['EFBIG', 'raise the limit of file size'],
  ['EROFS', 'remount its disk read-write'],
  ['EIO', 'check its disk for hardware errors'],
  ['EACCES', OWNER],
  ['EPERM', OWNER],
  ['ENOTDIR', 'remove the file that is in its place'],
  ['EEXIST', 'remove the file that is in its place'],
  ['EMFILE', FILES],
  ['ENFILE', FILES],
])

export const remedyFor = (code: string): string =>
  REMEDIES.get(code) ?? 'check that the worker may read and write it'
