// A disk of a few megabytes that a test fills. Mounting it needs root.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'

export class SmallDisk {
  readonly folder = mkdtempSync(join(tmpdir(), 'countersign-'))
  readonly #filler = join(this.folder, 'filler')

  constructor() {
    expect(
      process.getuid?.(),
      'this test must run as root, because it mounts a small disk; `npm test` in CI does',
    ).toBe(0)
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'none', this.folder])
  }

  fill(): void {
    try {
      for (;;) writeFileSync(this.#filler, Buffer.alloc(1_000_000), { flag: 'a' })
    } catch {
      const { bavail, bsize } = statfsSync(this.folder)
      writeFileSync(this.#filler, Buffer.alloc(bavail * bsize), { flag: 'a' })
    }
  }

  makeRoom(): void {
    rmSync(this.#filler)
  }

  remove(): void {
    execFileSync('umount', ['--lazy', this.folder])
    rmSync(this.folder, { recursive: true })
  }
}
