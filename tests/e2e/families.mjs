// Three tabs with our WebGPU engine (on a software adapter) answer with the families of 2026:
// recurrent layers (Qwen3.5), and layers that are kept together beside shared keys and values
// (Gemma 4 E2B). The judge is the native engine, which is itself held against transformers.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { buildHarness, harness, launchBrowser, noBrowser, Tab } from "./lib/tabs.mjs";
import { checkpoints, packageOfTwin } from "./lib/twins.mjs";
import { complete, eventually, reasonToSkip, serve, swarmOf } from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("stories260K") ||
  (existsSync(checkpoints) ? false : `there is no ${checkpoints}`);

let folder = "";
let browser = null;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-families-"));
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

async function answer(server, name) {
  const { choices: [choice], usage } = await complete(server.origin, {
    model: name, max_tokens: 12, temperature: 0,
    messages: [{ role: "user", content: "The loom goes to and fro." }],
  });
  return { text: choice.message.content, tokens: usage.completion_tokens };
}

for (const name of ["qwen3_5", "gemma4-e"]) {
  test(`a swarm of three tabs answers with ${name}`, { skip, timeout: 480_000 }, async () => {
    const twin = packageOfTwin(folder, name);
    const native = await serve(twin, ["--context", "128"]);
    const expected = await answer(native, name).finally(() => native.stop());
    assert.ok(expected.tokens > 4, JSON.stringify(expected));

    const server = await serve(twin, ["--context", "128", "--no-worker", "--web-root", harness]);
    const context = await browser.newContext();
    try {
      const tabs = [];
      for (const tabName of ["one", "two", "three"]) {
        const tab = await Tab.open(context, server.origin);
        await tab.start({ name: tabName, memoryBytes: 64e6, engine: "webgpu" });
        tabs.push(tab);
      }
      await eventually(async () => {
        const { state, message, workers } = await swarmOf(server.origin);
        assert.equal(state, "up", message);
        assert.equal(workers.length, 3);
      }, 240_000);
      assert.deepEqual(await answer(server, name), expected);
      for (const tab of tabs) assert.equal((await tab.status()).engine, "webgpu");
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await context.close();
      await server.stop();
    }
  });
}
