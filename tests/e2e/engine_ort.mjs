// engine-ort in a real browser: onnxruntime-web's WebGPU provider (on a software adapter) computes
// what its wasm provider computes, through stages, a truncation and exported keys and values.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import { packageOf, reasonToSkip, serve } from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("stories260K");
const kSteps = [
  { ids: [1, 403, 407, 261, 378], firstPosition: 0, generation: 0 },
  { ids: [432], firstPosition: 5, generation: 0 },
  { ids: [383, 286], firstPosition: 4, generation: 1 }, // truncates
];

let browser = null;
let server = null;
before(async () => {
  if (skip) return;
  await buildHarness();
  browser = await launchBrowser();
  server = await serve(packageOf("stories260K"), ["--no-worker", "--web-root", harness]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test("the WebGPU provider agrees with the wasm provider", { skip, timeout: 240_000 }, async () => {
  const context = await browser.newContext();
  const { page } = await Tab.open(context, server.origin);
  const run = (provider) =>
    page.evaluate((request) => window.runEngine(request), { provider, steps: kSteps, cut: 3 });
  const wasm = await run("wasm");
  assert.equal(wasm.error, undefined);
  assert.equal(wasm.name, "ort-wasm");
  const webgpu = await run("webgpu");
  assert.equal(webgpu.error, undefined);
  assert.equal(webgpu.name, "ort-webgpu");
  for (const [step, expected] of wasm.logits.entries()) {
    assert.equal(webgpu.logits[step].length, expected.length);
    const worst = Math.max(...expected.map((value, i) => Math.abs(value - webgpu.logits[step][i])));
    // The software adapter's exp and rsqrt are the least exact that WebGPU allows.
    assert.ok(worst < 2e-2, `step ${step}: logits differ by ${worst}`);
  }
  assert.equal(webgpu.kv.length, wasm.kv.length);
  for (const { use, afterwards } of [wasm, webgpu]) {
    assert.ok(use.kvBytes > 0 && use.weightBytes > 0);
    assert.equal(afterwards.kvBytes, 0);
    assert.equal(afterwards.weightBytes, 0);
  }
  const [wasmMs, webgpuMs] = [wasm, webgpu].map(({ stepMs }) => stepMs.map(Math.round));
  console.log(`ms a step: wasm ${wasmMs}, webgpu on a software adapter ${webgpuMs}`);
  await context.close();
});
