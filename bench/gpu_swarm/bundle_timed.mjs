// Bundles the headless worker with timed_engine.js in the place of its engine.
import { mkdirSync, rmSync, symlinkSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const web = join(here, "../../web");
const kEngine = "threads/ownEngine.ts";
const kMade = "return await makeWebGpuEngine(gpu, options, store);";

const timedEngine = {
  name: "timed-engine",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith(kEngine)) return null;
    if (!code.includes(kMade)) throw new Error(`${kEngine} has no line '${kMade}'`);
    const module = JSON.stringify(join(here, "timed_engine.js"));
    const made = `void [makeWebGpuEngine, options, store];
      const { TimedEngine } = await import(${module});
      return new TimedEngine(manifest) as never;`;
    return code.replace("{ quantisation, boundaryDtype }) => {",
      "manifest) => {\nconst { quantisation, boundaryDtype } = manifest;").replace(kMade, made);
  },
};

// The path of the worker. Dawn is found beside it, since an adapter is opened all the same.
export async function bundleTimedWorker(outDir) {
  const require = createRequire(join(web, "package.json"));
  const { build } = await import(pathToFileURL(require.resolve("vite")).href);
  await build({
    configFile: join(web, "packages/headless/vite.config.ts"),
    logLevel: "error",
    plugins: [timedEngine],
    build: { outDir },
  });
  const modules = join(outDir, "node_modules");
  mkdirSync(modules, { recursive: true });
  rmSync(join(modules, "webgpu"), { force: true });
  symlinkSync(join(web, "node_modules/webgpu"), join(modules, "webgpu"));
  return join(outDir, "worker.mjs");
}
