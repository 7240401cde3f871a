// Makes one file of the engine (TypeScript, WGSL) that Node runs as it is.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");

// Returns the path of the file.
export async function bundleEngine(outDir = join(root, "build/bench/webgpu")) {
  const require = createRequire(join(root, "web/package.json"));
  const { build } = await import(pathToFileURL(require.resolve("vite")).href);
  await build({
    root: join(root, "web"),
    configFile: false,
    logLevel: "warn",
    build: {
      ssr: join(root, "bench/webgpu/engine.js"),
      outDir,
      emptyOutDir: true,
      target: "node20",
      rollupOptions: { output: { entryFileNames: "engine.mjs", codeSplitting: false } },
    },
    ssr: { noExternal: true },
  });
  return join(outDir, "engine.mjs");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  console.log(await bundleEngine(process.argv[2]));
}
