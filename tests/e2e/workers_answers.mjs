// Tabs that compute: answers of swarms of tabs and native workers against transformers' greedy
// continuations and against one native worker alone; a tab that goes away in the middle.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import {
  complete, eventually, modelFolder, nativeWorker, packageOf, reasonToSkip, root, serve, stream,
  swarmOf,
} from "./lib/weft.mjs";

const skip = noBrowser() || reasonToSkip("weft-tiny", "stories260K");
const require = createRequire(join(root, "web/package.json"));
const kContext = ["--context", "256", "--sessions", "2"];
const kStory = "Tell me a story about a little fox who lost a red ball.";

let browser = null;
before(async () => {
  if (skip) return;
  await buildHarness();
  browser = await launchBrowser();
});
after(async () => browser?.close());

// body({context, server}) with a server of `model` and a fresh browser profile.
function swarmTest(name, model, args, body) {
  test(name, { skip, timeout: 240_000 }, async () => {
    const server = await serve(packageOf(model), ["--web-root", harness, ...kContext, ...args]);
    const context = await browser.newContext();
    try {
      await body({ context, server });
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await context.close();
      await server.stop();
    }
  });
}

async function textOf(origin, model, content, tokens) {
  const answer = await complete(origin, {
    model,
    messages: [{ role: "user", content }],
    max_tokens: tokens,
  });
  return answer.choices[0].message.content;
}

// What one native worker answers.
let alone = null;
async function storyAlone() {
  if (alone !== null) return alone;
  const server = await serve(packageOf("weft-tiny"), ["--web-root", harness, ...kContext]);
  await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
  alone = await textOf(server.origin, "weft-tiny", kStory, 60);
  await server.stop();
  return alone;
}

async function expectUp(origin, workers) {
  await eventually(async () => {
    const swarm = await swarmOf(origin);
    assert.equal(swarm.state, "up", swarm.message);
    assert.equal(swarm.stages.length, workers, JSON.stringify(swarm.stages));
  }, 120_000);
}

swarmTest("one tab answers as transformers does", "stories260K", ["--no-worker"], async (swarm) => {
  const { origin } = swarm.server;
  const tab = await Tab.open(swarm.context, origin);
  await tab.start({ name: "alone", memoryBytes: 256e6 });
  await tab.waitFor("ready");
  const folder = modelFolder("stories260K");
  const { Tokenizer } = require("@huggingface/tokenizers");
  const json = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));
  const tokenizer = new Tokenizer(json("tokenizer.json"), json("tokenizer_config.json"));
  for (const [prompt, expected] of Object.entries(json("expected.json"))) {
    const ids = expected.output_ids.slice(0, 60);
    const whole = tokenizer.decode([...expected.prompt_ids, ...ids], { skip_special_tokens: true });
    const begin = tokenizer.decode(expected.prompt_ids, { skip_special_tokens: true });
    const text = await textOf(origin, "stories260K", prompt, ids.length);
    assert.equal(text.trim(), whole.slice(begin.length).trim());
  }
  const status = await tab.status();
  assert.ok(status.rowsComputed > 60 && status.stepsComputed >= 60, JSON.stringify(status));
  assert.ok(status.rowsPerSecond > 0 && status.usedBytes <= status.memoryBytes);
});

// Each offers so much that two of the three cannot hold the model.
const kShare = 24.6e6;

swarmTest(
  "a native worker and two tabs, each too small for half, answer as one alone",
  "weft-tiny",
  ["--no-worker"],
  async ({ context, server }) => {
    const native = nativeWorker(server.origin, ["--memory", "11600000", "--threads", "1"]);
    const tabs = [await Tab.open(context, server.origin), await Tab.open(context, server.origin)];
    try {
      await tabs[0].start({ name: "first tab", memoryBytes: kShare });
      await tabs[1].start({ name: "second tab", memoryBytes: kShare });
      await expectUp(server.origin, 3);
      assert.equal(await textOf(server.origin, "weft-tiny", kStory, 60), await storyAlone());
      for (const tab of tabs) {
        const { rowsComputed, usedBytes } = await tab.status();
        assert.ok(rowsComputed >= 60 && usedBytes <= kShare);
      }
    } finally {
      await native.stop();
    }
  },
);

swarmTest(
  "a tab that is closed in the middle of an answer does not change it",
  "weft-tiny",
  ["--no-worker"],
  async ({ context, server }) => {
    const tabs = [];
    for (const name of ["first", "second", "third"]) {
      const tab = await Tab.open(context, server.origin);
      await tab.start({ name, memoryBytes: 90e6 });
      tabs.push(tab);
    }
    await eventually(async () => {
      const swarm = await swarmOf(server.origin);
      assert.equal(swarm.state, "up");
      assert.equal(swarm.workers.filter((worker) => worker.state !== "joining").length, 3);
    }, 120_000);
    const used = (await swarmOf(server.origin)).stages.map((stage) => stage.worker);
    const victims = (await swarmOf(server.origin)).workers.filter(({ id }) => used.includes(id));
    const victim = tabs.find((_, i) => ["first", "second", "third"][i] === victims.at(-1).name);
    let closed = null;
    const request = {
      model: "weft-tiny",
      messages: [{ role: "user", content: kStory }],
      max_tokens: 60,
    };
    const { text, finishReason } = await stream(server.origin, request, (soFar) => {
      if (soFar.length > 40) closed ??= victim.close();
    });
    await closed;
    assert.ok(closed !== null && finishReason !== null);
    assert.equal(text, await storyAlone());
  },
);
