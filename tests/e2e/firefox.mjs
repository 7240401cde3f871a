// Firefox: its pages and swarms, our WebGPU engine on a software adapter, and every WGSL module
// through its compiler.
import assert from "node:assert/strict";

import { launchFirefox, noFirefox } from "./lib/firefox.mjs";
import {
  browserTests, mixedSwarmTest, oddTab, oddityTests, pageTests,
} from "./lib/other_browsers.mjs";
import { harness } from "./lib/tabs.mjs";
import { complete } from "./lib/weft.mjs";

const shared = browserTests(launchFirefox, noFirefox());
const onHarness = { webRoot: harness, model: "stories260K" };

pageTests(shared);
oddityTests(shared);

shared.swarmTest("its compiler takes every WGSL module", onHarness, async ({ browser, server }) => {
  await browser.goto(`${server.origin}/`);
  const { compiled, refused, lacking } = await browser.evaluate(() => window.compileKernels());
  const words = refused.map(({ key, errors }) => `${key}: ${errors.join("; ")}`);
  assert.equal(refused.length, 0, `Firefox refuses ${refused.length}:\n${words.join("\n")}`);
  assert.ok(compiled.length > 200);
  console.log(`${compiled.length} modules; ${lacking.length} want features it has not`);
});

// Six tokens of the continuation that transformers and llama2.c agree on (expected.json).
shared.swarmTest("our engine computes on its WebGPU", onHarness, async ({ browser, server }) => {
  const { engine } = await oddTab(browser, server.origin, "hideAdapterInfo", { engine: "webgpu" },
    ({ phase }) => phase === "ready");
  assert.equal(engine, "webgpu");
  const answer = await complete(server.origin, {
    model: "stories260K", messages: [{ role: "user", content: "Once upon a time" }], max_tokens: 6,
  });
  assert.equal(answer.choices[0].message.content, ", there was a little g");
});

shared.swarmTest("where a kernel is refused, the processor computes", onHarness,
  async ({ browser, server }) => {
    const { engine } = await oddTab(browser, server.origin, "refuseKernels", { engine: "webgpu" },
      ({ phase }) => phase === "ready");
    assert.equal(engine, "ort-wasm");
  });

mixedSwarmTest(shared);
