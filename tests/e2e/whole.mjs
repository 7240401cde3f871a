// Everything at once, as people use it: weft serves its page, a native worker and two tabs that
// pressed "Help compute" hold the model together (no two of them could), and the chat page asks.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launchBrowser, noBrowser } from "./lib/tabs.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, root, serve, swarmOf,
} from "./lib/weft.mjs";

const page = join(root, "web/dist/index.html");
const skip = noBrowser() || reasonToSkip("weft-tiny") ||
  (existsSync(page) ? false : `there is no ${page}`);
const kArguments = ["--context", "256", "--sessions", "2", "--web-root", join(root, "web/dist")];
const kStory = "Tell me a story about a little fox who lost a red ball.";
const kTokens = 80;
const kTabBytes = 24_600_000;
const kNativeBytes = 11_600_000;

let browser = null;
before(async () => {
  if (!skip) browser = await launchBrowser();
});
after(async () => browser?.close());

// What one native worker answers.
async function storyAlone() {
  const server = await serve(packageOf("weft-tiny"), kArguments);
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
    const answer = await complete(server.origin, {
      model: "weft-tiny", messages: [{ role: "user", content: kStory }], max_tokens: kTokens,
    });
    return answer.choices[0].message.content;
  } finally {
    await server.stop();
  }
}

// A tab of a browser of its own that helps; errors of the page fail the test.
async function helper(origin, name, errors) {
  const tab = await (await browser.newContext()).newPage();
  tab.on("pageerror", (error) => errors.push(`${name}: ${error}`));
  await tab.goto(`${origin}/join?${new URLSearchParams({
    name, memory: String(kTabBytes), engine: "wasm",
  })}`);
  await tab.getByRole("button", { name: "Help compute" }).click();
  await tab.getByRole("button", { name: "Stop helping" }).waitFor();
  return tab;
}

async function openChat(origin, errors) {
  const chat = await (await browser.newContext()).newPage();
  chat.on("pageerror", (error) => errors.push(`chat: ${error}`));
  await chat.addInitScript((settings) => {
    localStorage.setItem("weft.chatSettings", JSON.stringify(settings));
  }, { systemPrompt: "", temperature: 0, mostTokens: kTokens });
  await chat.goto(origin);
  return chat;
}

async function ask(chat, text) {
  await chat.getByRole("textbox", { name: "Message" }).fill(text);
  await chat.keyboard.press("Enter");
}

// The last answer as the page keeps it, once it is complete.
async function answerOf(chat) {
  return await eventually(async () => {
    const [saved] = await chat.evaluate(() => Object.keys(localStorage)
      .filter((key) => key.startsWith("weft.chat."))
      .map((key) => JSON.parse(localStorage.getItem(key))));
    const answer = saved?.messages.at(-1);
    assert.equal(answer?.phase, "done", JSON.stringify(answer));
    return answer.text;
  }, 150_000);
}

async function expectUp(origin, devices) {
  await eventually(async () => {
    const swarm = await swarmOf(origin);
    assert.equal(swarm.state, "up", swarm.message);
    assert.equal(swarm.stages.length, devices);
    return swarm;
  }, 120_000);
}

test("three small devices answer through the page as one large one, and one may leave",
  { skip, timeout: 360_000 }, async () => {
    const expected = await storyAlone();
    const errors = [];
    const server = await serve(packageOf("weft-tiny"), [...kArguments, "--no-worker"]);
    const native = nativeWorker(server.origin,
      ["--memory", String(kNativeBytes), "--threads", "1"]);
    try {
      const first = await helper(server.origin, "First tab", errors);
      const chat = await openChat(server.origin, errors);
      await chat.getByText(/needs .* more memory/).first().waitFor();
      assert.ok(await chat.getByRole("button", { name: "Send" }).isDisabled());
      const second = await helper(server.origin, "Second tab", errors);
      await expectUp(server.origin, 3);
      await ask(chat, kStory);
      assert.equal(await answerOf(chat), expected);

      // What people see of it: who holds what, on the chat page and on the helper's own.
      await chat.getByText("Ready: 3 devices compute the model.").first().waitFor();
      await chat.getByRole("heading", { name: "First tab" }).waitFor();
      await first.getByText(/^(the embedding and )?layers? \d.*$/).waitFor();
      for (const { download_total_bytes: total } of (await swarmOf(server.origin)).workers) {
        assert.equal(total, 0, "a card would still show a download");
      }

      // A tab closes in the middle of an answer; with another one the same answer goes on.
      const again = await openChat(server.origin, errors);
      await ask(again, kStory);
      await again.locator(".answer p").first().waitFor();
      await second.close();
      const isOpen = await again.locator(".answer").getAttribute("aria-busy");
      assert.equal(isOpen, "true", "the answer was over before the tab closed");
      await helper(server.origin, "Third tab", errors);
      await eventually(async () => {
        const names = (await swarmOf(server.origin)).workers.map(({ name }) => name);
        assert.ok(names.includes("Third tab") && !names.includes("Second tab"), names.join());
      }, 30_000);
      assert.equal(await answerOf(again), expected);
      assert.equal((await swarmOf(server.origin)).failed_requests, 0);
      assert.deepEqual(errors, []);
    } catch (error) {
      error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
      throw error;
    } finally {
      await native.stop();
      await server.stop();
    }
  });
