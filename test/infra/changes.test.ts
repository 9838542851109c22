// Files of changes become the changelog: infra/check/changes.ts checks and collects them.

import { expect, test } from 'vitest'
import { faultsOf, released, unreleased } from '../../infra/check/changes.ts'

const change = (text: string) => ({ file: '.changes/a.md', text })

test('a file of changes needs one known section and a text', () => {
  expect(faultsOf(change('# Added\n\nA command.\n'))).toEqual([])
  expect(faultsOf(change('# New\n\nA command.\n'))[0]).toContain('begin with one of `# Added`')
  expect(faultsOf(change('A command.\n'))).toHaveLength(2)
  expect(faultsOf(change('# Fixed\n\n'))).toEqual(['.changes/a.md: say in a sentence what a user notices'])
  expect(faultsOf(change('# Fixed\n\nA.\n# Added\n\nB.\n'))).toEqual([
    '.changes/a.md: write one section per file',
  ])
})

test('changes are collected by section, in the order of the changelog', () => {
  const changes = ['# Fixed\n\nA fault.\n', '# Added\n\nA command\nwith a flag.\n', '# Added\n\nA page.\n']
  expect(unreleased(changes.map(change))).toBe(
    '### Added\n\n- A command\n  with a flag.\n- A page.\n\n### Fixed\n\n- A fault.\n',
  )
  expect(unreleased([])).toBe('')
})

test('a release is written below the heading of unreleased changes, above earlier ones', () => {
  const log = '# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-11-01\n\n- Everything.\n'
  expect(released(log, '0.2.0', '2026-12-01', '### Added\n\n- A page.\n')).toBe(
    '# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- A page.\n\n## [0.1.0] - 2026-11-01\n\n- Everything.\n',
  )
  expect(() => released('# Changelog\n', '0.2.0', '2026-12-01', '')).toThrow('no heading')
})
