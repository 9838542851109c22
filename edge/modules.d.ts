// What the bundler makes of files that are not TypeScript. It owns no type of ours.
// The rules that produce these are in wrangler's configuration: `.wasm` compiled, the others as text.

declare module '*.wasm' {
  const module: WebAssembly.Module
  export default module
}

declare module '*.sql' {
  const text: string
  export default text
}

declare module '*.md' {
  const text: string
  export default text
}

declare module '*.cedar' {
  const text: string
  export default text
}

declare module '*.cedarschema' {
  const text: string
  export default text
}
