import { modelWanting } from '../../hosts/scripted-model.ts'
import { WANTED } from '../wanted.ts'

export const model = modelWanting(WANTED)
