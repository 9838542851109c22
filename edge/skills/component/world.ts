// Checks that a component fits the world `countersign:skill@0.1.0` (shared/wire/skill-world.ts): it
// imports only the world's interfaces and exports only `run`, with exactly the world's types (W07,
// W09, W11). Pure.

import { MalformedBinary } from '../../../shared/bytes/wasm-binary.ts'
import { SkillCapability } from '../../../shared/plan/plan.ts'
import type { ComponentTypes } from './type-text.ts'

const PACKAGE = 'countersign:skill/'
const VERSION = '@0.1.0'
const ERROR = 'string'
const RESPONSE = 'record{status:u16,headers:list<tuple<string,string>>,body:list<u8>}'

/**
 * Types in the spelling of `ComponentTypes`. A component declares those that it uses, in any order.
 */
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

/** Capabilities whose host functions are asynchronous: the component suspends while they run. */
const ASYNC: ReadonlySet<SkillCapability> = new Set(['http', 'secrets', 'kv', 'channel'])
/** The names that jco gives to the asynchronous functions of these capabilities. */
export const asyncFunctions = (capabilities: readonly SkillCapability[]): string[] =>
  capabilities
    .filter((name) => ASYNC.has(name))
    .flatMap((name) =>
      INTERFACES[name]
        .filter((one) => one.includes(':func('))
        .map((one) => `${PACKAGE}${name}${VERSION}#${one.split(':')[0]}`),
    )

/** The capabilities that the component imports. Throws if it does not fit the world. */
export function capabilitiesOfWorld({ imports, functions, exports }: ComponentTypes): SkillCapability[] {
  const capabilities = [...imports].map(([name, type]) => {
    const capability = SkillCapability.options.find((one) => name === `${PACKAGE}${one}${VERSION}`)
    if (capability === undefined)
      throw new MalformedBinary(`it imports \`${name}\`, which skills may not import`)
    const members = type.slice(1, -1).split(';')
    if (!type.startsWith('{') || members.some((member) => !INTERFACES[capability].includes(member)))
      throw new MalformedBinary(
        `its import \`${name}\` does not have the types of \`countersign:skill@0.1.0\``,
      )
    return capability
  })
  const other = [...functions].find((type) => type !== RUN)
  if (other !== undefined || functions.size === 0 || [...exports].join() !== 'run')
    throw new MalformedBinary(
      'it must export exactly `run`, with the type of the world `countersign:skill@0.1.0`',
    )
  return capabilities
}
