// Makes one file of the engine (TypeScript, WGSL) that Node and browsers run as it is, and one for
// conformance_check.mjs.
//
//   node bench/webgpu/bundle.mjs [DIR]     writes both into build/bench/webgpu, or DIR
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

async function bundle(name, outDir) {
  const require = createRequire(join(root, "web/package.json"));
  const { build } = await import(pathToFileURL(require.resolve("vite")).href);
  await build({
    root: join(root, "web"),
    configFile: false,
    logLevel: "warn",
    build: {
      ssr: join(root, `bench/webgpu/${name}.js`),
      outDir,
      emptyOutDir: false,
      target: "node20",
      rollupOptions: { output: { entryFileNames: `${name}.mjs`, codeSplitting: false } },
    },
    ssr: { noExternal: true },
  });
  return join(outDir, `${name}.mjs`);
}

// Returns the path of the engine's file.
export async function bundleEngine(outDir = join(root, "build/bench/webgpu")) {
  return await bundle("engine", outDir);
}

// The same for check_engine.mjs, which also reads packages.
export async function bundleCheckEngine(outDir = join(root, "build/bench/webgpu")) {
  return await bundle("check_engine", outDir);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await bundleEngine(process.argv[2]));
  console.log(await bundleCheckEngine(process.argv[2]));
}
