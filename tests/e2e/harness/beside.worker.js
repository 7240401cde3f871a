// How long a tab's steps take while it loads further layers: our engine computes rows through the
// first layers of the served package, alone, with a layer loaded between two steps, and with layers
// that are brought beside steps. What is loaded lies in memory before.
import { makeWebGpuEngine } from "../../../web/packages/engine/src/makeWebGpuEngine.ts";

async function sourceOf(manifest) {
  const blobs = new Map();
  for (const digest of Object.keys(manifest.blobs)) {
    const response = await fetch(`/package/blobs/${digest}`, { cache: "no-store" });
    blobs.set(digest, new Uint8Array(await response.arrayBuffer()));
  }
  const part = (digest, offset, byteCount) =>
    blobs.get(digest).subarray(offset, offset + byteCount);
  return {
    readBlob: (digest) => Promise.resolve(blobs.get(digest)),
    readRange: (...range) => Promise.resolve(part(...range)),
    async *readPieces(digest, offset, byteCount) {
      for (let at = 0; at < byteCount; at += 1 << 20) {
        yield part(digest, offset + at, Math.min(1 << 20, byteCount - at));
      }
    },
    loaded: () => Promise.resolve(),
    layerBlobs: (layer) => manifest.layers[layer].blobs,
    layerProgram: (layer) => manifest.layers[layer].program,
    layerKvBytes: (layer) => manifest.layers[layer].kv_bytes_per_position,
  };
}

self.onmessage = async ({ data: { computed, loaded } }) => {
  try {
    const manifest = await (await fetch("/package/weft.json")).json();
    const source = await sourceOf(manifest);
    const engine = await makeWebGpuEngine(navigator.gpu, {
      memoryLimitBytes: 0, alsoHeld: () => 0, kvDtype: "f16", residualDtype: "f16", pokes: null,
    });
    const layers = { first: 0, end: computed };
    await engine.load(layers, source);
    let position = 0;
    // Milliseconds of steps until `isOver`, or so many.
    const steps = async (isOver, between = () => Promise.resolve()) => {
      const times = [];
      while (!isOver(times.length)) {
        const begin = performance.now();
        await between();
        const run = { session: 1, generation: 0, firstPosition: position++, count: 1,
          output: { kind: "hidden" } };
        await engine.step({ layers, runs: [run], tokenIds: Int32Array.of(5),
          hidden: new Float32Array(0) });
        times.push(performance.now() - begin);
      }
      return times;
    };
    await steps((count) => count === 10);
    const alone = await steps((count) => count === 40);
    const rest = Array.from({ length: loaded }, (_, i) => computed + i);
    const range = { first: computed, end: computed + loaded };
    await engine.load(range, source); // kernels are compiled
    await engine.unload(range);
    const waiting = [...rest];
    const between = await steps(() => waiting.length === 0, async () => {
      const layer = waiting.shift();
      await engine.load({ first: layer, end: layer + 1 }, source, undefined, true);
    });
    await engine.unload(range);
    let isLoaded = false;
    const begin = performance.now();
    void Promise.all(rest.map((layer) => engine.loadAhead(layer, source)))
      .then(() => (isLoaded = true));
    const beside = await steps(() => isLoaded);
    const loadMs = performance.now() - begin;
    await engine.dispose();
    self.postMessage({ alone, between, beside, loadMs });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
