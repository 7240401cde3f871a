// Our WebGPU engine in a real browser (on a software adapter) computes what onnxruntime-web's wasm
// provider computes, through stages, a truncation and exported keys and values.
import assert from "node:assert/strict";
import { test } from "node:test";

import { assertAgrees, assertReleased, engineTests, runEngine } from "./lib/engines.mjs";
import { Tab } from "./lib/tabs.mjs";
import { complete, eventually, swarmOf } from "./lib/weft.mjs";

const shared = engineTests();
const { skip } = shared;

test("our engine agrees with onnxruntime's wasm", { skip, timeout: 480_000 }, async () => {
  const context = await shared.browser.newContext();
  const { page } = await Tab.open(context, shared.server.origin);
  const wasm = await runEngine(page, "wasm");
  const own = await runEngine(page, "own");
  assert.equal(own.name, "webgpu");
  assertAgrees(own, wasm, 1e-2);
  assertReleased(own);
  console.log(`ms a step on a software adapter: ${own.stepMs.map(Math.round)}`);
  await context.close();
});

// Six tokens of the continuation that transformers and llama2.c agree on (expected.json).
test("a tab with our engine is a swarm of one", { skip, timeout: 480_000 }, async () => {
  const context = await shared.browser.newContext();
  const tab = await Tab.open(context, shared.server.origin);
  await tab.start({ name: "own engine", memoryBytes: 400e6, engine: "webgpu" });
  await eventually(async () => {
    const { state, message } = await swarmOf(shared.server.origin);
    assert.equal(state, "up", message);
  }, 240_000);
  const answer = await complete(shared.server.origin, {
    model: "stories260K",
    messages: [{ role: "user", content: "Once upon a time" }],
    max_tokens: 6,
    temperature: 0,
  });
  assert.equal(answer.choices[0].message.content, ", there was a little g");
  assert.equal((await tab.status()).engine, "webgpu");
  await context.close();
});
