// Owns what an operator is told to do where the host refuses us something: a remedy for each of the kernel's reasons.

const OWNER = 'let it belong to the user that runs the worker'
const ROOM = 'make room on its disk'
const FILES = 'raise the limit of open files'

const REMEDIES = new Map([
  ['ENOSPC', ROOM],
  ['EDQUOT', ROOM],
  ['EFBIG', 'raise the limit of what a file may hold'],
  ['EROFS', 'mount its disk so that it can be written'],
  ['EIO', 'look after its disk'],
  ['EACCES', OWNER],
  ['EPERM', OWNER],
  ['ENOTDIR', 'remove what stands in its way'],
  ['EEXIST', 'remove what stands in its way'],
  ['EMFILE', FILES],
  ['ENFILE', FILES],
])

export const remedyFor = (code: string): string => REMEDIES.get(code) ?? 'see that it can be read and written'
