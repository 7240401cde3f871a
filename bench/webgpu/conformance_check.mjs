// The conformance cases and greedy continuations of packages on the GPU at hand, without vitest:
// for machines that have Node and a GPU, but no npm. ENGINE is bundle.mjs's check_engine.mjs.
//
//   node bench/webgpu/conformance_check.mjs ENGINE DAWN CASES_DIR [PACKAGE_DIR REFERENCE_JSON|-]...
//
// Every way of computing products that the device may choose runs the cases of products; those of
// the same kind must have the same bits, of rows together and one by one. So must those of weights
// in superblocks, for which there are no expected values here: superblocks.test.ts has their rule,
// and computes it with the first of these ways. WEFT_F16=1 asks Dawn for
// shader-f16 on NVIDIA's GPUs; without it, products in f16 are named as skipped.
//
// REFERENCE_JSON: what `weft generate PACKAGE --prompt-ids IDS --logits` prints on any machine: the
// ids must be the native engine's, the logits within 1e-3 (2e-2 where weights are not f32); "-":
// nobody knows them. Every way of computing products of integers must give a token, and prompts of
// 50 and 300, the same logits, and the last of 2,400 tokens the same ones as a step of its own and
// as the end of a prompt.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [enginePath, dawnPath, casesDir, ...packages] = process.argv.slice(2);
const engine = await import(pathToFileURL(enginePath).href);
const { create } = createRequire(import.meta.url)(dawnPath);
const kToggles = "enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis";
const kUnits = "enable-dawn-features=allow_unsafe_apis"; // matrix units are an experiment
const instance = create(["backend=vulkan", process.env.WEFT_F16 ? kToggles : kUnits]);
const gpu = await engine.openGpu(instance);
console.log(JSON.stringify({ device: gpu.description }));

function worst(got, expected, tolerance) {
  let most = 0;
  for (const [i, value] of got.entries()) {
    const off = Math.abs(value - expected[i]);
    const error = off === 0 ? 0 : off / (tolerance * Math.max(1, Math.abs(expected[i])));
    if (!(error <= most)) most = error; // not-a-number too
  }
  return most;
}

// The first of a kind is what the others must give the bits of.
function waysOf(products) {
  const of = (lanes, outputs, tileRows) => ({ products, lanes, outputs, tileRows });
  const lanes = [...(gpu.hasSubgroups ? ["subgroups"] : []), "shared"];
  const withUnits = { ...of("subgroups", 32, 4), units: true };
  const wide = gpu.limits.workgroupThreads >= 512 ? ["blocks", "wide"] : ["blocks"];
  const walks = gpu.hasSubgroups
    ? wide.map((rowWalk) => ({ ...of("subgroups", 32, 4), rowWalk }))
    : [];
  const units = gpu.hasMatrixUnits ? [withUnits, { ...withUnits, fewUnits: true }] : [];
  return [
    of("serial", 16, 4),
    ...lanes.flatMap((kind) => [of(kind, 8, 2), of(kind, 16, 4), of(kind, 32, 8)]),
    ...walks,
    ...units,
  ];
}
const kinds = [
  { products: "f32", least: 0, isThere: true },
  { products: "int16", least: 1e-3, isThere: gpu.hasIntegerDots },
  { products: "f16", least: 1e-2, isThere: gpu.hasF16 },
];

let failed = 0;
let count = 0;
const files = readdirSync(casesDir).filter((name) => name.endsWith(".json"));
const cases = files
  .filter((file) => file !== "penalize.json")
  .flatMap((file) => JSON.parse(readFileSync(join(casesDir, file), "utf8")));
const isProduct = ({ op }) => op === "matmul" || op === "moe_experts";

// `expected`: bits to be met, or null for the first way of its kind.
async function runOne(c, tuning, least, expected) {
  ++count;
  try {
    const got = await engine.runCase(gpu, c, 1000, { tuning });
    const isKnown = c.expected.length > 0;
    const error = isKnown ? worst(got, c.expected, Math.max(c.tolerance, least)) : 0;
    const alone = await engine.runCase(gpu, c, 1, { tuning });
    const same = got.every(
      (value, i) => Object.is(value, alone[i]) && (!expected || Object.is(value, expected[i])),
    );
    if (error <= 1 && same) return got;
    console.log(JSON.stringify({ tuning, op: c.op, name: c.name, error, same }));
  } catch (error) {
    console.log(JSON.stringify({ tuning, op: c.op, name: c.name, threw: String(error) }));
  }
  ++failed;
  return null;
}

const [usual] = waysOf("f32").slice(1);
for (const c of cases.filter((one) => !isProduct(one))) await runOne(c, usual, 0, null);
for (const { products, least, isThere } of kinds) {
  if (!isThere) console.log(JSON.stringify({ skipped: products }));
  if (!isThere) continue;
  for (const c of cases.filter(isProduct)) {
    let expected = null;
    for (const tuning of waysOf(products)) {
      const got = await runOne(c, tuning, least, expected);
      expected ??= got;
    }
  }
}

// Widths end in a whole superblock or in part of one; outputs fill no tile.
function superblockCases() {
  const forms = [["q4s", [1120, 2080, 4096]], ["q4k", [1280, 4352]],
    ["q5k", [1280, 2304]], ["q6k", [1280, 4096]]];
  const shapes = forms.flatMap(([kind, widths]) => widths.map((columns) => ({ kind, columns })));
  return shapes.flatMap(({ kind, columns }) => [1, 3, 16, 29, 70].map((rows) => ({
    name: `${kind}_${rows}x${columns}`,
    op: "matmul",
    params: {},
    inputs: {
      in: { kind: "f32", shape: [rows, columns], seed: 11 + rows, amplitude: 3 },
      weight: { kind, shape: [150, columns], seed: 23 + columns },
    },
    tolerance: 0,
    expected: [],
  })));
}
for (const c of gpu.hasIntegerDots ? superblockCases() : []) {
  let expected = null;
  for (const tuning of waysOf("int16")) {
    const got = await runOne(c, tuning, 0, expected);
    expected ??= got;
  }
}
console.log(JSON.stringify({ conformanceCases: count, conformanceFailed: failed }));

// The logits of every row of the prompt, which may have others in front of it.
async function evaluate(whole, source, prompt, { session = 2, firstPosition = 0 } = {}) {
  const run = { session, generation: 0, firstPosition, count: prompt.length };
  const { logits } = await whole.step({
    layers: source.range,
    runs: [{ ...run, output: { kind: "logits" } }],
    tokenIds: Int32Array.from(prompt),
    hidden: new Float32Array(0),
  });
  return logits;
}

// Rows of a prompt go through tiles of many rows, which single products above do not reach: the
// shorter one through those of matrix units for few rows. One token goes through those of its own.
const kPromptTokens = [1, 50, 300];
const kLongPrompt = 2400;
const kLastRows = 20; // enough for the kernel of many rows

async function checkWays(dir, count) {
  const source = new engine.PackageFolder(dir);
  const prompt = Array.from({ length: count }, (_, i) => (7 * i) % 250);
  let expected = null;
  for (const tuning of waysOf("int16").slice(1)) {
    const whole = new engine.WebGpuEngine(gpu, { ...engine.kDefaultOptions, tuning });
    await whole.load(source.range, source);
    const logits = await evaluate(whole, source, prompt);
    whole.freeBuffers();
    expected ??= logits;
    const differ = logits.filter((value, i) => !Object.is(value, expected[i])).length;
    console.log(JSON.stringify({ package: dir, tuning, differ, of: logits.length }));
    if (differ > 0) ++failed;
  }
}
// Attention of a row alone, over many chunks, and of the same row among others.
async function checkLong(dir) {
  const source = new engine.PackageFolder(dir);
  const whole = new engine.WebGpuEngine(gpu, engine.kDefaultOptions);
  await whole.load(source.range, source);
  const prompt = Array.from({ length: kLongPrompt }, (_, i) => (7 * i) % 250);
  const last = kLongPrompt - kLastRows;
  for (const session of [3, 4]) {
    for (let at = 0; at < last; at += 340) {
      await evaluate(whole, source, prompt.slice(at, Math.min(last, at + 340)),
        { session, firstPosition: at });
    }
  }
  const rows = await evaluate(whole, source, prompt.slice(last),
    { session: 3, firstPosition: last });
  const before = { session: 4, firstPosition: last };
  await evaluate(whole, source, prompt.slice(last, -1), before);
  const alone = await evaluate(whole, source, prompt.slice(-1),
    { session: 4, firstPosition: kLongPrompt - 1 });
  whole.freeBuffers();
  const expected = rows.slice(-alone.length);
  const differ = alone.filter((value, i) => !Object.is(value, expected[i])).length;
  console.log(JSON.stringify({ package: dir, positions: kLongPrompt, differ, of: alone.length }));
  if (differ > 0 || alone.length === 0) ++failed;
}

const folders = packages.filter((_, i) => i % 2 === 0);
for (const dir of gpu.hasIntegerDots ? folders : []) {
  const { quantisation } = new engine.PackageFolder(dir).manifest;
  if (quantisation === "f32") continue;
  for (const count of kPromptTokens) await checkWays(dir, count);
  await checkLong(dir);
}

// What is checked of a package: as the device computes it, and in f16.
const served = [{}, ...(gpu.hasF16 ? [{ products: "f16" }] : [])];
const checks = packages.flatMap((dir, i) =>
  i % 2 === 0 ? served.map((more) => ({ dir, file: packages[i + 1], more })) : [],
);
for (const { dir, file, more } of checks.filter(({ file }) => file !== "-")) {
  const source = new engine.PackageFolder(dir);
  const reference = JSON.parse(readFileSync(file, "utf8"));
  const { prompt_ids: prompt, output_ids: greedy, logits } = reference;
  const isExact = source.manifest.quantisation === "f32";
  const options = {
    ...engine.kDefaultOptions,
    kvDtype: isExact ? "f32" : "f16",
    residualDtype: source.manifest.boundary_dtype,
    ...more,
  };
  if (isExact && more.products) continue; // models in f32 stay in f32
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
  console.log(JSON.stringify({ package: dir, ...more, greedyEqual, logitError }));
  const isGreedy = equal === greedy.length || more.products; // f16 may decide near ties otherwise
  if (!isGreedy || !(logitError <= (isExact ? 1e-3 : 2e-2))) ++failed;
  whole.freeBuffers();
}
process.exit(failed > 0 ? 1 : 0);
