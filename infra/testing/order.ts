// Orders the test files of a run, slowest first, so that no slow file runs alone at the end, and
// deals the files of a run in CI into shards of about equal duration. `npm run test:durations`
// records the durations.

import { existsSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Milliseconds by project and file. */
export type Durations = Readonly<Record<string, Readonly<Record<string, number>>>>

export const DURATIONS = 'test/durations.json'
/** Assumed for a file that is not in the list: a slow one that began late would run alone at the end. */
const UNKNOWN_MS = 30_000

export class Slowest extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const group = ({ project }: TestSpecification): number => project.config.sequence.groupOrder ?? 0
    return bySlowness(this.#timed(files))
      .map(({ file }) => file)
      .sort((a, b) => group(a) - group(b))
  }

  override async shard(files: TestSpecification[]): Promise<TestSpecification[]> {
    const { index, count } = this.ctx.config.shard ?? { index: 1, count: 1 }
    return shardOf(this.#timed(files), index, count).map(({ file }) => file)
  }

  #timed(files: readonly TestSpecification[]): Timed<TestSpecification>[] {
    const { root } = this.ctx.config
    const durations = readDurations(root)
    return files.map((file) => {
      const [project, name] = [file.project.name, relative(root, file.moduleId)]
      return { file, name: `${project} ${name}`, ms: durations[project]?.[name] ?? UNKNOWN_MS }
    })
  }
}

export type Timed<File> = { readonly file: File; readonly name: string; readonly ms: number }

const bySlowness = <File>(files: readonly Timed<File>[]): Timed<File>[] =>
  [...files].sort((a, b) => b.ms - a.ms || (a.name < b.name ? -1 : 1))

/**
 * Returns the same shards on every machine: the slowest remaining file goes to the shard with the
 * shortest time so far.
 */
export function shardOf<File>(files: readonly Timed<File>[], index: number, count: number): Timed<File>[] {
  const shards = Array.from({ length: count }, () => ({ ms: 0, files: [] as Timed<File>[] }))
  for (const file of bySlowness(files)) {
    const least = shards.reduce((a, b) => (b.ms < a.ms ? b : a))
    least.ms += file.ms
    least.files.push(file)
  }
  return shards[index - 1]?.files ?? []
}

export function readDurations(root: string): Durations {
  const path = join(root, DURATIONS)
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Durations) : {} // written by `npm run test:durations`
}
