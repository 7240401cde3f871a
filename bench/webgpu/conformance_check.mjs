// The conformance cases and greedy continuations of packages on the GPU at hand, without vitest:
// for machines that have Node and a GPU, but no npm. ENGINE is bundle.mjs's check_engine.mjs.
//
//   node bench/webgpu/conformance_check.mjs ENGINE DAWN CASES_DIR [PACKAGE_DIR REFERENCE_JSON]...
//
// REFERENCE_JSON: what `weft generate PACKAGE --prompt-ids IDS --logits` prints on any machine: the
// ids must be the native engine's, the logits within 1e-3 (2e-2 where weights are not f32).
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [enginePath, dawnPath, casesDir, ...packages] = process.argv.slice(2);
const engine = await import(pathToFileURL(enginePath).href);
const { create } = createRequire(import.meta.url)(dawnPath);
const instance = create(["backend=vulkan"]);
const gpu = await engine.openGpu(instance);
console.log(JSON.stringify({ device: gpu.description }));

function worst(got, expected, tolerance) {
  let most = 0;
  for (const [i, value] of got.entries()) {
    const error = Math.abs(value - expected[i]) / (tolerance * Math.max(1, Math.abs(expected[i])));
    if (!(error <= most)) most = error; // not-a-number too
  }
  return most;
}

// In f32 with what the device has, without subgroups, and with inputs of q4 and q8 products as
// integers.
const variants = [
  { name: "f32", gpu, products: "f32", least: 0 },
  { name: "no subgroups", gpu: { ...gpu, hasSubgroups: false }, products: "f32", least: 0 },
  { name: "int16", gpu, products: "int16", least: 1e-3 },
];

let failed = 0;
let count = 0;
const files = readdirSync(casesDir).filter((name) => name.endsWith(".json"));
const cases = files
  .filter((file) => file !== "penalize.json")
  .flatMap((file) => JSON.parse(readFileSync(join(casesDir, file), "utf8")));
for (const { name, gpu: own, products, least } of variants) {
  for (const c of cases) {
    if (name !== "f32" && c.op !== "matmul" && c.op !== "moe_experts") continue;
    ++count;
    try {
      const got = await engine.runCase(own, c, 1000, products);
      const error = worst(got, c.expected, Math.max(c.tolerance, least));
      const alone = await engine.runCase(own, c, 1, products);
      const same = got.every((value, i) => Object.is(value, alone[i]));
      if (error <= 1 && same) continue;
      console.log(JSON.stringify({ variant: name, op: c.op, name: c.name, error, same }));
    } catch (error) {
      console.log(JSON.stringify({ variant: name, op: c.op, name: c.name, threw: String(error) }));
    }
    ++failed;
  }
}
console.log(JSON.stringify({ conformanceCases: count, conformanceFailed: failed }));

// The logits of every row of the prompt.
async function evaluate(whole, source, prompt) {
  const run = { session: 2, generation: 0, firstPosition: 0, count: prompt.length };
  const { logits } = await whole.step({
    layers: source.range,
    runs: [{ ...run, output: { kind: "logits" } }],
    tokenIds: Int32Array.from(prompt),
    hidden: new Float32Array(0),
  });
  return logits;
}

for (let i = 0; i + 1 < packages.length; i += 2) {
  const source = new engine.PackageFolder(packages[i]);
  const reference = JSON.parse(readFileSync(packages[i + 1], "utf8"));
  const { prompt_ids: prompt, output_ids: greedy, logits } = reference;
  const isExact = source.manifest.quantisation === "f32";
  const options = {
    ...engine.kDefaultOptions,
    kvDtype: isExact ? "f32" : "f16",
    residualDtype: source.manifest.boundary_dtype,
  };
  const whole = new engine.WebGpuEngine(gpu, options);
  await whole.load(source.range, source);
  const first = await whole.step({
    layers: source.range,
    runs: [
      {
        session: 1,
        generation: 0,
        firstPosition: 0,
        count: prompt.length,
        output: { kind: "argmax" },
      },
    ],
    tokenIds: Int32Array.from(prompt),
    hidden: new Float32Array(0),
  });
  const ids = [first.selections[0].candidates[0].tokenId];
  await whole.generate(source.range, {
    session: 1,
    generation: 0,
    firstPosition: prompt.length,
    firstToken: ids[0],
    count: greedy.length - 1,
    interval: 8,
    pipelined: true,
    onTokens: (tokens) => ids.push(...tokens) > 0,
  });
  const equal = ids.filter((id, at) => id === greedy[at]).length;
  const greedyEqual = `${equal} of ${greedy.length}`;
  const evaluated = logits ? await evaluate(whole, source, prompt) : [];
  const logitError = evaluated.reduce(
    (most, value, at) => Math.max(most, Math.abs(value - logits[at])),
    0,
  );
  console.log(JSON.stringify({ package: packages[i], greedyEqual, logitError }));
  if (equal < greedy.length || !(logitError <= (isExact ? 1e-3 : 2e-2))) ++failed;
  whole.freeBuffers();
}
process.exit(failed > 0 ? 1 : 0);
