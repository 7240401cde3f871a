// The parts of the benchmark: which subject runs where, and the model files that peers need.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { ChromiumHost, NodeHost, serve } from "./hosts.mjs";
import { writeGguf } from "./peers/random_gguf.mjs";
import { writeOnnx } from "./peers/random_onnx.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const kSoftwareDriver = "/usr/lib/chromium/vk_swiftshader_icd.json";

// Where npm put a package; throws where it is not installed.
function packageDir(root, workspace, name) {
  const dir = join(root, workspace, "node_modules", name);
  if (existsSync(dir)) return dir;
  throw new Error(`npm's package ${name} is not in ${workspace}/node_modules`);
}

export class Parts {
  #options;
  #server = null;

  // options: {root, kit, engine, models, hardware, experiments}
  constructor(options) {
    this.#options = options;
  }

  // A host with the subject of that name; its model's files are there before.
  async start(part, size) {
    const { engine, models, kit, hardware } = this.#options;
    this.#makeFiles(part, size);
    switch (part) {
      case "node-ours": {
        const args = ["ours", engine, this.#dawn(), ...(hardware ? ["f16"] : [])];
        return await NodeHost.start(args, this.#nodeEnv());
      }
      case "node-ort": {
        const tools = join(this.#options.root, "tools/node_modules");
        const module = join(kit ? join(kit, "node_modules") : tools, "onnxruntime-node");
        return await NodeHost.start(["ort", module, models], this.#nodeEnv());
      }
      case "chromium-ours":
        return await this.#chromium("ours");
      case "chromium-ort":
        return await this.#chromium("ort");
      case "wllama":
        return await this.#chromium("wllama");
      default:
        throw new Error(`there is no part '${part}'`);
    }
  }

  async close() {
    this.#server?.close();
  }

  #makeFiles(part, size) {
    const dir = join(this.#options.models, size);
    if (part.endsWith("-ort")) {
      const dtype = this.#options.hardware ? "f16" : "f32";
      const about = join(dir, "model.json");
      if (existsSync(about) && JSON.parse(readFileSync(about, "utf8")).dtype === dtype) return;
      writeOnnx(dir, size, dtype);
    }
    if (part === "wllama" && !existsSync(join(dir, "gguf.json"))) writeGguf(dir, size);
  }

  #dawn() {
    const { kit, root } = this.#options;
    return kit ? join(kit, "dawn.node") : packageDir(root, "web", "webgpu");
  }

  #nodeEnv() {
    if (this.#options.hardware) return {};
    return { VK_ICD_FILENAMES: kSoftwareDriver, LD_LIBRARY_PATH: dirname(kSoftwareDriver) };
  }

  async #chromium(kind) {
    const { kit, root, hardware, experiments } = this.#options;
    this.#server ??= await serve(this.#folders());
    if (kind === "wllama" && !kit) packageDir(root, "tools", "@wllama/wllama");
    return await ChromiumHost.start({
      kind,
      hardware,
      experiments,
      origin: this.#server.origin,
      playwright: kit ? join(kit, "playwright-core") : packageDir(root, "web", "playwright-core"),
      executable: kit
        ? join(kit, "chromium/chromium")
        : (process.env.CHROMIUM ?? "/usr/bin/chromium"),
      env: kit ? { LD_LIBRARY_PATH: join(kit, "xlibs") } : {},
    });
  }

  // What pages may fetch, by the beginning of the path.
  #folders() {
    const { kit, root, engine, models } = this.#options;
    const ort = join(root, "web/node_modules/onnxruntime-web/dist");
    const esm = join(root, "tools/node_modules/@wllama/wllama/esm");
    return {
      "/page/": join(here, "page"),
      "/bench/": here,
      "/models/": models,
      "/web/": kit ? join(kit, "web") : ort,
      "/wllama/index.min.js": kit ? join(kit, "web/wllama.min.js") : join(esm, "index.min.js"),
      "/wllama/wllama.wasm": kit ? join(kit, "web/wllama.wasm") : join(esm, "wasm/wllama.wasm"),
      "/engine.mjs": engine,
    };
  }
}
