// A subject of the benchmark in a Node process of its own: takes {method, options} from the process
// that started it and answers {result} or {error}.
//
//   argv: ours ENGINE_FILE DAWN_MODULE [f16] | ort ONNXRUNTIME_NODE MODELS_DIR
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { Ort } from "./ort.mjs";
import { Ours } from "./ours.mjs";

const require = createRequire(import.meta.url);
const [kind, ...rest] = process.argv.slice(2);
const kToggles = "enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis";
let dawn = null; // kept: Dawn dies when its instance is collected before its devices

async function ours([engineFile, dawnModule, f16]) {
  const engine = await import(pathToFileURL(engineFile).href);
  dawn = require(dawnModule).create(["backend=vulkan", ...(f16 ? [kToggles] : [])]);
  return new Ours(engine, dawn);
}

function ort([module, modelsDir]) {
  const open = (size) => {
    const dir = join(modelsDir, size);
    const { dtype } = JSON.parse(readFileSync(join(dir, "model.json"), "utf8"));
    return { model: join(dir, "model.onnx"), dtype, options: { logSeverityLevel: 3 } };
  };
  return new Ort(require(module), open, false);
}

const subject = kind === "ours" ? await ours(rest) : ort(rest);
process.on("message", ({ method, options }) => {
  Promise.resolve()
    .then(() => subject[method](options))
    .then(
      (result) => process.send({ result: result ?? null }),
      (error) => process.send({ error: String(error?.message ?? error) }),
    );
});
process.send({ result: "ready" });
