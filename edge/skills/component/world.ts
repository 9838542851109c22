// What a component must be to be a skill of the world `countersign:skill@0.1.0` (shared/wire/skill-world.ts): its imports are the world's, and
// it exports `run`, by names and by exact types. Pure.

import { Malformed } from '../../../shared/bytes/wasm-binary.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import type { Types } from './type-text.ts'

const PACKAGE = 'countersign:skill/'
const VERSION = '@0.1.0'
const ERROR = 'string'
const RESPONSE = 'record{status:u16,headers:list<tuple<string,string>>,body:list<u8>}'

/** As `Types` spells them. A component says those of the functions that it uses, in any order. */
const INTERFACES: Readonly<Record<SkillCapability, readonly string[]>> = {
  log: ['write:func(level:string,text:string)'],
  clock: ['now:func()->u64'],
  random: ['bytes:func(count:u32)->list<u8>'],
  http: [
    `response:${RESPONSE}`,
    `request:func(method:string,url:string,headers:string,body:list<u8>)->result<${RESPONSE},${ERROR}>`,
  ],
  secrets: [`get:func(name:string)->result<string,${ERROR}>`],
  kv: [
    `get:func(key:string)->result<option<list<u8>>,${ERROR}>`,
    `set:func(key:string,value:list<u8>)->result<_,${ERROR}>`,
    `delete:func(key:string)->result<_,${ERROR}>`,
    `keys:func(prefix:string)->result<list<string>,${ERROR}>`,
  ],
  channel: [`post:func(channel:string,text:string)->result<_,${ERROR}>`],
}
const RUN = `func(tool:string,input:string)->result<string,${ERROR}>`

/** Those whose host has to ask somebody: a component that imports one waits, where others run through. */
const ASKING: ReadonlySet<SkillCapability> = new Set(['http', 'secrets', 'kv', 'channel'])
/** Its functions, as jco names them. */
export const askingFunctions = (capabilities: readonly SkillCapability[]): string[] =>
  capabilities
    .filter((name) => ASKING.has(name))
    .flatMap((name) =>
      INTERFACES[name]
        .filter((one) => one.includes(':func('))
        .map((one) => `${PACKAGE}${name}${VERSION}#${one.split(':')[0]}`),
    )

/** What a component of the world imports; what is not of the world is told by its name. */
export function worldly({ imports, functions, exports }: Types): SkillCapability[] {
  const capabilities = [...imports].map(([name, type]) => {
    const capability = SkillCapability.options.find((one) => name === `${PACKAGE}${one}${VERSION}`)
    if (capability === undefined) throw new Malformed(`it imports \`${name}\`, which no skill is given`)
    const said = type.slice(1, -1).split(';')
    if (!type.startsWith('{') || said.some((one) => !INTERFACES[capability].includes(one)))
      throw new Malformed(`its \`${name}\` is not that of \`countersign:skill@0.1.0\``)
    return capability
  })
  const other = [...functions].find((type) => type !== RUN)
  if (other !== undefined || functions.size === 0 || [...exports].join() !== 'run')
    throw new Malformed('it does not export `run` alone, as the world `countersign:skill@0.1.0` has it')
  return capabilities
}
