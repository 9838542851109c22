// Rewrites jco's glue code for an isolate, which may not compile code at run time: small modules
// that the glue contains as byte lists become files of their own.

const LITERAL = /new WebAssembly\.Module\(new Uint8Array\(\[([\d,\s]*)\]\)\)/g
/**
 * jco's debug switch. Reading it would make the runtime load Node's whole `process` into the
 * isolate (9 ms).
 */
const DEBUG_FLAG = /globalThis\?\.process\?\.env\?\.JCO_DEBUG/g

export function liftInlineModules(
  name: string,
  glue: string,
): readonly (readonly [name: string, bytes: Uint8Array])[] {
  const files: [string, Uint8Array][] = []
  const changed = glue.replace(DEBUG_FLAG, 'undefined').replace(LITERAL, (_, bytes: string) => {
    const file = `glue${files.length}.wasm`
    files.push([
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
  const imports = files.map(([file]) => `import ${file.replace('.wasm', '')} from './${file}';\n`).join('')
  return [[name, new TextEncoder().encode(imports + changed)], ...files]
}
