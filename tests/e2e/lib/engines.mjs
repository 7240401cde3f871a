// What the tests of the browser engines have in common: a server of a small model, and the same
// three steps in one session, the last of which truncates.
import assert from "node:assert/strict";
import { after, before } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser } from "./tabs.mjs";
import { packageOf, reasonToSkip, serve } from "./weft.mjs";

export const kSteps = [
  { ids: [1, 403, 407, 261, 378], firstPosition: 0, generation: 0 },
  { ids: [432], firstPosition: 5, generation: 0 },
  { ids: [383, 286], firstPosition: 4, generation: 1 }, // truncates
];

// A browser and a server of stories260K for all tests of a file: {skip, browser, server}, where the
// last two are there while the tests run.
export function engineTests() {
  const shared = { skip: noBrowser() || reasonToSkip("stories260K"), browser: null, server: null };
  before(async () => {
    if (shared.skip) return;
    await buildHarness();
    shared.browser = await launchBrowser();
    shared.server = await serve(
      packageOf("stories260K"), ["--no-worker", "--web-root", harness]);
  });
  after(async () => {
    await shared.browser?.close();
    await shared.server?.stop();
  });
  return shared;
}

// What the engine named `provider` answers in the harness page; the model is cut at layer 3.
export async function runEngine(page, provider) {
  const result = await page.evaluate(
    (request) => window.runEngine(request), { provider, steps: kSteps, cut: 3 });
  assert.equal(result.error, undefined);
  return result;
}

// Logits within `limit` of the other engine's, and as many keys and values.
export function assertAgrees(engine, expected, limit) {
  for (const [step, logits] of expected.logits.entries()) {
    assert.equal(engine.logits[step].length, logits.length);
    const worst = Math.max(...logits.map((value, i) => Math.abs(value - engine.logits[step][i])));
    assert.ok(worst < limit, `step ${step}: logits differ by ${worst}`);
  }
  assert.equal(engine.kv.length, expected.kv.length);
}

export function assertReleased({ use, afterwards }) {
  assert.ok(use.kvBytes > 0 && use.weightBytes > 0);
  assert.equal(afterwards.kvBytes, 0);
  assert.equal(afterwards.weightBytes, 0);
}
