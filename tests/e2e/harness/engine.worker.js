// Runs one engine directly, without a swarm: layers of the served package, a prompt and a few
// tokens through two stages. Answers with the logits of every row.
import { createOrtEngine } from "../../../web/packages/engine-ort/src/index.ts";
import { makeWebGpuEngine } from "../../../web/packages/engine/src/makeWebGpuEngine.ts";

function sourceOf(manifest) {
  const bytes = async (path) => {
    const response = await fetch(`/package/${path}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  return {
    readGraph: ({ first, end }) => bytes(`stages/${first}-${end}.onnx`),
    readBlob: (digest) => bytes(`blobs/${digest}`),
    layerBlobs: (layer) => manifest.layers[layer].blobs,
    readRange: async (digest, offset, byteCount) =>
      (await bytes(`blobs/${digest}`)).slice(offset, offset + byteCount),
    loaded: () => Promise.resolve(),
    layerProgram: (layer) => manifest.layers[layer].program,
    layerKvBytes: (layer) => manifest.layers[layer].kv_bytes_per_position,
  };
}

// Token ids through [0, cut) and [cut, end); the logits of all of them.
async function forward(engine, layerCount, cut, ids, firstPosition, generation) {
  const run = { session: 1, generation, firstPosition, count: ids.length };
  const first = await engine.step({
    layers: { first: 0, end: cut },
    runs: [{ ...run, output: { kind: "hidden" } }],
    tokenIds: Int32Array.from(ids),
    hidden: new Float32Array(0),
  });
  const second = await engine.step({
    layers: { first: cut, end: layerCount },
    runs: [{ ...run, output: { kind: "logits" } }],
    tokenIds: new Int32Array(0),
    hidden: first.hidden,
  });
  return [...second.logits];
}

// "own": our WebGPU engine, to f32 throughout; else a provider of onnxruntime-web, on so many
// threads, or as many as are found fastest.
function makeEngine(provider, threads) {
  const found = `${threads} ${Date.now()}`;
  const store = { get: () => Promise.resolve(found), set: () => Promise.resolve() };
  const kept = threads ? store : null;
  if (provider !== "own") return createOrtEngine(provider, 512e6, () => 0, "f32", kept);
  const options = { memoryLimitBytes: 512e6, alsoHeld: () => 0 };
  return makeWebGpuEngine(navigator.gpu, { ...options, kvDtype: "f32", residualDtype: "f32" });
}

self.onmessage = async ({ data: { provider, threads, steps, cut } }) => {
  try {
    const manifest = await (await fetch("/package/weft.json")).json();
    const engine = await makeEngine(provider, threads);
    const layerCount = manifest.layers.length;
    await engine.load({ first: 0, end: layerCount }, sourceOf(manifest));
    const logits = [];
    const stepMs = [];
    for (const { ids, firstPosition, generation } of steps) {
      const begin = performance.now();
      logits.push(await forward(engine, layerCount, cut, ids, firstPosition, generation));
      stepMs.push(performance.now() - begin);
    }
    const kv = [...(await engine.exportKv(1, 2, 0, 3))];
    const use = engine.memory();
    await engine.dispose();
    const { name, detail } = engine;
    self.postMessage({ name, detail, logits, stepMs, kv, use, afterwards: engine.memory() });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
