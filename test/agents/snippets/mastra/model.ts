import { modelWanting } from '../../hosts/mastra.ts'
import { WANTED } from '../wanted.ts'

/** Mastra puts the server's name before the tool's. */
export const model = modelWanting({ ...WANTED, tool: `countersign_${WANTED.tool}` })
