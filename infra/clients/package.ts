// `node infra/clients/package.ts`: builds the TypeScript client into clients/typescript/dist, from
// which `npm pack` makes the package. `verify` contains shared/evidence, with Node's
// modules replaced, so that one build runs everywhere.

import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { type BuildOptions, build } from 'esbuild'
import { ROOT } from '../state.ts'

const FOLDER = join(ROOT, 'clients/typescript')
const ENTRIES = ['client', 'verify', 'guard/ai-sdk', 'guard/openai-agents', 'guard/langgraph', 'guard/mastra']

/** Replaces Node's modules, so that shared/ runs without Node. */
export const PORTABLE = {
  format: 'esm',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  target: 'es2023',
  alias: { 'node:crypto': join(FOLDER, 'src/portable/node-crypto.ts') },
  inject: [join(FOLDER, 'src/portable/buffer.ts')],
  // zod contains its messages in all languages; no verdict shows any.
  plugins: [
    {
      name: 'one-language',
      setup: ({ onResolve }) =>
        onResolve({ filter: /\/locales\/index\.js$/ }, () => ({
          path: join(ROOT, 'node_modules/zod/v4/locales/en.js'),
        })),
    },
  ],
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: 'none',
  logLevel: 'silent',
} as const satisfies BuildOptions

/** Builds into the folder `outdir`, and returns how many bytes each module has. */
export async function buildClient(outdir: string): Promise<Readonly<Record<string, number>>> {
  rmSync(outdir, { recursive: true, force: true })
  const { metafile } = await build({
    ...PORTABLE,
    absWorkingDir: FOLDER,
    entryPoints: ENTRIES.map((entry) => `src/${entry}.ts`),
    outbase: 'src',
    outdir,
    bundle: true,
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    metafile: true,
  })
  declare(outdir)
  writeFileSync(join(outdir, 'THIRD-PARTY.txt'), licences(Object.keys(metafile.inputs)))
  return Object.fromEntries(
    Object.entries(metafile.outputs)
      .filter(([path]) => path.endsWith('.js'))
      .map(([path, { bytes }]) => [relative(outdir, join(FOLDER, path)), bytes]),
  )
}

/** The licences of the packages that are in the bundle, which their terms ask for. */
function licences(inputs: readonly string[]): string {
  const named = inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [])
  const texts = [...new Set(named)].sort().map((name) => {
    const folder = join(ROOT, 'node_modules', name)
    const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string } // npm's
    return `${name} ${version}\n\n${readFileSync(join(folder, 'LICENSE'), 'utf8').trim()}\n`
  })
  return texts.join('\n')
}

/**
 * Writes the declarations. The exported types name nothing of shared/, so only those of the client
 * are kept.
 */
function declare(outdir: string): void {
  const draft = mkdtempSync(join(tmpdir(), 'countersign-client-'))
  const tsc = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', '.', '--outDir', draft], {
    cwd: FOLDER,
    encoding: 'utf8',
  })
  if (tsc.status !== 0) throw new Error(`the client’s types do not check:\n${tsc.stdout}${tsc.stderr}`)
  cpSync(join(draft, 'clients/typescript/src'), outdir, { recursive: true })
  rmSync(draft, { recursive: true })
}

if (import.meta.main)
  for (const [module, bytes] of Object.entries(await buildClient(join(FOLDER, 'dist'))))
    console.log(`${String(bytes).padStart(8)}  ${module}`)
