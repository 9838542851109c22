import { AIMessage } from '@langchain/core/messages'
import { fakeModel } from '@langchain/core/testing'
import { WANTED } from '../wanted.ts'

const { id, tool: name, args } = WANTED

/** Wants the tool, then repeats its result. */
export const model = fakeModel()
  .respondWithTools([{ id, name, args }])
  .respond((messages) => new AIMessage(String(messages.at(-1)?.content)))
