// A subject of the benchmark in a dedicated Worker of a page: the page passes {method, options} on
// and gets {result} or {error}. The first message names the kind of subject.
import { Ort } from "./ort.mjs";
import { Ours } from "./ours.mjs";

async function ort() {
  const module = await import("/web/ort.jspi.bundle.min.mjs");
  module.env.wasm.wasmPaths = "/web/";
  module.env.wasm.numThreads = 1;
  module.env.webgpu.powerPreference = "high-performance";
  const open = async (size) => {
    const about = await (await fetch(`/models/${size}/model.json`)).json();
    const externalData = [];
    for (const path of about.chunks) {
      const response = await fetch(`/models/${size}/${path}`);
      externalData.push({ path, data: new Uint8Array(await response.arrayBuffer()) });
    }
    const model = `/models/${size}/model.onnx`;
    return { model, dtype: about.dtype, options: { externalData, logSeverityLevel: 3 } };
  };
  return new Ort(module, open, true);
}

const makers = {
  ours: async () => new Ours(await import("/engine.mjs"), navigator.gpu),
  ort,
  wllama: async () => new (await import("./wllama.mjs")).WllamaSubject(),
};
let subject = null;

self.onmessage = async ({ data: { method, options } }) => {
  try {
    if (method === "make") subject = await makers[options.kind]();
    const result = method === "make" ? "ready" : await subject[method](options);
    self.postMessage({ result: result ?? null });
  } catch (error) {
    self.postMessage({ error: String(error?.message ?? error) });
  }
};
