// Tests engine-ort in a real browser: onnxruntime-web's WebGPU provider (on a software adapter)
// computes what its wasm provider computes, through stages, a truncation and exported keys and
// values.
import assert from "node:assert/strict";
import { test } from "node:test";

import { assertAgrees, assertReleased, engineTests, runEngine } from "./lib/engines.mjs";
import { Tab } from "./lib/tabs.mjs";

const shared = engineTests();
const { skip } = shared;

test("the WebGPU provider agrees with the wasm provider", { skip, timeout: 240_000 }, async () => {
  const context = await shared.browser.newContext();
  const { page } = await Tab.open(context, shared.server.origin);
  const wasm = await runEngine(page, "wasm");
  assert.equal(wasm.name, "ort-wasm");
  assert.match(wasm.detail, /^(1 thread|[248] threads)$/);
  const webgpu = await runEngine(page, "webgpu");
  assert.equal(webgpu.name, "ort-webgpu");
  // The software adapter's exp and rsqrt are the least exact that WebGPU allows.
  assertAgrees(webgpu, wasm, 2e-2);
  assertReleased(wasm);
  assertReleased(webgpu);
  const [wasmMs, webgpuMs] = [wasm, webgpu].map(({ stepMs }) => stepMs.map(Math.round));
  console.log(`ms a step: wasm ${wasmMs}, webgpu on a software adapter ${webgpuMs}`);
  await context.close();
});
