// An enabled skill in the directory.

import type { Skill } from '../../shared/wire/skills.ts'

/** The part of an enabled version that a call needs. */
export type EnabledSkill = Pick<Skill, 'id' | 'version' | 'digest' | 'component' | 'modules'>
