// What every browser beside Chromium is tested with: the chat page and the helper's page as they
// are served, a swarm of such a tab and native workers, and what browsers do that the ones at hand
// do not (harness/oddities.js).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { proxy } from "./proxy.mjs";
import { buildHarness, harness } from "./tabs.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, root, serve, stream, swarmOf,
} from "./weft.mjs";

const kPage = join(root, "web/dist");
const kContext = ["--context", "256", "--sessions", "2"];
const kAsked = "Tell me a story about a little fox who lost a red ball.";
const kTokens = 60;
const kRequest = {
  model: "weft-tiny", messages: [{ role: "user", content: kAsked }], max_tokens: kTokens,
};

// A browser for all tests of a file: {skip, browser, swarmTest}; `missing`: why there is none.
export function browserTests(launch, missing) {
  const noPage = existsSync(join(kPage, "index.html")) ? false : `there is no page in ${kPage}`;
  const skip = missing || reasonToSkip("weft-tiny", "stories260K") || noPage;
  const shared = { skip, browser: null };
  before(async () => {
    if (skip) return;
    await buildHarness();
    shared.browser = await launch();
  });
  after(async () => await shared.browser?.close());
  // body({browser, server}) with a server of `model` and of these files. What the console says is
  // a failure, unless body asks for it before.
  shared.swarmTest = (name, { model = "weft-tiny", webRoot = kPage, args = [] }, body) =>
    test(name, { skip, timeout: 240_000 }, async () => {
      const { browser } = shared;
      const files = ["--web-root", browser.watched(webRoot)];
      const server = await serve(packageOf(model), ["--no-worker", ...files, ...kContext, ...args]);
      try {
        await body({ browser, server });
        if (browser.isGone) return;
        assert.deepEqual(await browser.errors(), [], "the console's errors");
        await browser.goto("about:blank"); // before the server that it helps is gone
      } catch (error) {
        error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
        throw error;
      } finally {
        await server.stop();
      }
    });
  return shared;
}

// What one native worker answers.
let alone = null;
async function storyAlone() {
  if (alone !== null) return alone;
  const server = await serve(packageOf("weft-tiny"), kContext);
  await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
  alone = (await complete(server.origin, kRequest)).choices[0].message.content;
  await server.stop();
  return alone;
}

async function help(browser, origin, memoryBytes) {
  await browser.goto(`${origin}/join?memory=${memoryBytes}&name=tab`);
  await browser.sees("Downloads up to");
  await browser.sees(browser.keepsWeights
    ? "keeps it in this browser for the next time" : "This browser keeps nothing");
  const hasBegun = () => document.querySelector(".helping-phase") !== null;
  // A click that meets the page while its parts move hits nothing, and people press once more.
  await eventually(async () => {
    if (!(await browser.evaluate(hasBegun))) await browser.clickOn("Help compute");
    await eventually(async () => assert.ok(await browser.evaluate(hasBegun)), 5000);
  }, 60_000);
  await browser.until(() =>
    /Ready|Computing/.test(document.querySelector(".helping-phase")?.innerText ?? ""));
}

// The text of the last answer as the page keeps it, once it is whole.
const keptAnswer = () => {
  const key = Object.keys(localStorage).find((each) => each.startsWith("weft.chat."));
  const { text, phase } = JSON.parse(localStorage[key] ?? "{}").messages?.at(-1) ?? {};
  return document.querySelector(".answer-foot") && phase === "done" ? text : "";
};

export function pageTests({ swarmTest }) {
  swarmTest("an error of the page is told", {}, async ({ browser, server }) => {
    await browser.goto(`${server.origin}/`);
    await browser.sees("No device computes for this swarm yet");
    assert.deepEqual(await browser.errors(), []);
    await browser.evaluate(() => void setTimeout(() => Promise.reject(new Error("on purpose"))));
    await eventually(async () => assert.match((await browser.errors()).join(), /on purpose/));
  });
  swarmTest("the pages work, and a tab that helps answers what is asked in it", {},
    async ({ browser, server }) => {
      const { origin } = server;
      await browser.goto(`${origin}/`);
      const settings = { systemPrompt: "", temperature: 0, mostTokens: kTokens };
      await browser.evaluate(
        (text) => (localStorage["weft.chatSettings"] = text), JSON.stringify(settings));
      await browser.goto(`${origin}/swarm`);
      await browser.sees("No device computes for this swarm yet");
      await help(browser, origin, 2 ** 28);
      const { workers } = await swarmOf(origin);
      assert.deepEqual(workers.map(({ kind, engine }) => [kind, engine]), [["web", "ort-wasm"]]);
      await browser.clickOn("Chat", "a");
      await browser.type("#composer-text", kAsked);
      await browser.until(() => document.querySelector('button[aria-label="Send"]:enabled'));
      await browser.type("#composer-text", "\n");
      const text = await browser.until(keptAnswer);
      assert.equal(text, await storyAlone());
      await browser.goto(`${origin}/`);
      await browser.sees(kAsked);
      assert.equal(await browser.until(keptAnswer), text);
    });
}

// The last test of a file: the browser is gone after it. The native worker holds half of the model
// at most; the one that takes over is a slow line away, so that it stands by until then.
export function mixedSwarmTest(shared) {
  shared.swarmTest("it holds layers beside a native worker, and dies in the middle of an answer",
    {}, async ({ browser, server }) => {
      const { origin } = server;
      const half = ["--memory", "14000000", "--threads", "1"];
      const line = await proxy(origin, () => false, { delayMs: 40 });
      const natives = [nativeWorker(origin, ["--name", "first", ...half])];
      try {
        await help(browser, origin, 2 ** 25);
        await eventually(async () => assert.equal((await swarmOf(origin)).stages.length, 2));
        assert.equal((await complete(origin, kRequest)).choices[0].message.content,
          await storyAlone());
        natives.push(nativeWorker(line.origin, ["--name", "second", ...half]));
        await eventually(async () => {
          const { workers } = await swarmOf(origin);
          const stateOf = (wanted) => workers.find(({ name }) => name === wanted).state;
          assert.match(stateOf("second"), /idle|standby/);
          assert.equal(stateOf("tab"), "active");
        });
        assert.deepEqual(await browser.errors(), []);
        let killed = null;
        const { text } = await stream(origin, kRequest, (soFar) => {
          if (soFar.length > 40) killed ??= browser.kill();
        });
        await killed;
        browser.isGone = true;
        assert.ok(killed);
        assert.equal(text, await storyAlone());
        const left = (await swarmOf(origin)).workers;
        assert.ok(left.every(({ kind }) => kind === "native"), JSON.stringify(left));
      } finally {
        for (const native of natives) await native.stop();
        line.close();
      }
    });
}

// A tab of the harness in a browser with this oddity, until its status is as wanted.
export async function oddTab(browser, origin, oddity, options, isWanted) {
  await browser.goto(`${origin}/`);
  await browser.until(() => window.oddHelp !== undefined);
  await browser.evaluate((name, start) => {
    window.odd = window.oddHelp(name);
    window.odd.start(start);
  }, oddity, { serverOrigin: origin, joinToken: "", workerId: oddity, name: oddity,
    memoryBytes: 2 ** 28, isPhone: false, engine: "auto", ...options });
  return await eventually(async () => {
    const status = await browser.evaluate(() => window.odd.status);
    assert.ok(isWanted(status), JSON.stringify(status));
    return status;
  }, 180_000);
}

export function oddityTests({ swarmTest }) {
  const onHarness = { webRoot: harness, model: "stories260K" };
  swarmTest("where 4 GiB of shared memory are refused, less is asked for", onHarness,
    async ({ browser, server }) => {
      const status = await oddTab(browser, server.origin, "limitMemory", {},
        ({ phase }) => phase === "ready");
      assert.equal(status.engine, "ort-wasm");
      assert.equal(status.keepsWeights, browser.keepsWeights);
    });
  swarmTest("threads of a tab share a computation", onHarness, async ({ browser, server }) => {
    await browser.goto(`${server.origin}/`);
    await browser.until(() => window.timeRounds !== undefined);
    // A thread that gets no core for 50 ms counts as none.
    await eventually(async () => {
      const [ms] = await browser.evaluate((counts) => window.timeRounds(counts), [2]);
      assert.ok(ms > 0, `${ms} ms a round`);
    });
  });
  swarmTest("where sockets to a server's own certificate are refused, the tab says so",
    { ...onHarness, args: ["--tls", "auto"] },
    async ({ browser, server }) => {
      await oddTab(browser, server.origin, "refuseSockets", {},
        ({ message }) => message.includes("this browser opens no WebSocket to it"));
    });
}
