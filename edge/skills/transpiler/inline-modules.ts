// What jco writes around a component, made fit for an isolate, which compiles no code at run time: small modules that it holds as lists of
// bytes become files beside it.

const LITERAL = /new WebAssembly\.Module\(new Uint8Array\(\[([\d,\s]*)\]\)\)/g
/** For a word to be talkative. To look for it would have the runtime load all of Node's `process` into the isolate first, 9 ms. */
const PROCESS = /globalThis\?\.process\?\.env\?\.JCO_DEBUG/g

export function lift(name: string, glue: string): readonly (readonly [name: string, bytes: Uint8Array])[] {
  const lifted: [string, Uint8Array][] = []
  const changed = glue.replace(PROCESS, 'undefined').replace(LITERAL, (_, bytes: string) => {
    const file = `glue${lifted.length}.wasm`
    lifted.push([
      file,
      Uint8Array.from(
        bytes
          .split(',')
          .filter((byte) => byte.trim() !== '')
          .map(Number),
      ),
    ])
    return file.replace('.wasm', '')
  })
  const imports = lifted.map(([file]) => `import ${file.replace('.wasm', '')} from './${file}';\n`).join('')
  return [[name, new TextEncoder().encode(imports + changed)], ...lifted]
}
