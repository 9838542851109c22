import { ScriptedModel } from '@openai/agents-core/testing'
import { scriptWanting } from '../../hosts/openai-agents.ts'
import { WANTED } from '../wanted.ts'

export const model = new ScriptedModel(scriptWanting(WANTED))
