// A mixture of experts whose experts no device can hold: the server's own worker keeps attention,
// router and head, three tabs that pressed "Help compute" hold the experts on their GPU (a software
// adapter), and the chat page asks.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launchBrowser, noBrowser } from "./lib/tabs.mjs";
import {
  complete, eventually, packageOf, reasonToSkip, root, serve, swarmOf,
} from "./lib/weft.mjs";

const built = join(root, "web/dist/index.html");
const skip = noBrowser() || reasonToSkip("weft-tiny-moe") ||
  (existsSync(built) ? false : `there is no ${built}`);
const kArguments = ["--context", "256", "--sessions", "2", "--web-root", join(root, "web/dist")];
const kStory = "Tell me a story about a little fox who lost a red ball.";
const kTokens = 12;
// The 128 experts take 17.3 MB; the rest of the model, its keys and values and what computes 13.
const kTabBytes = 17_000_000;
const kHubBytes = 16_000_000;

let browser = null;
before(async () => {
  if (!skip) browser = await launchBrowser();
});
after(async () => browser?.close());

// What one native worker answers that holds all of it.
async function storyAlone() {
  const server = await serve(packageOf("weft-tiny-moe", "f32"), kArguments);
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
    const answer = await complete(server.origin, {
      model: "weft-tiny-moe", messages: [{ role: "user", content: kStory }], max_tokens: kTokens,
    });
    return answer.choices[0].message.content;
  } finally {
    await server.stop();
  }
}

async function openPage(url, name, errors) {
  const page = await (await browser.newContext()).newPage();
  page.on("pageerror", (error) => errors.push(`${name}: ${error}`));
  await page.addInitScript((settings) => {
    localStorage.setItem("weft.chatSettings", JSON.stringify(settings));
  }, { systemPrompt: "", temperature: 0, mostTokens: kTokens });
  await page.goto(url);
  return page;
}

async function help(origin, name, errors) {
  const query = new URLSearchParams({ name, memory: String(kTabBytes), engine: "webgpu" });
  const tab = await openPage(`${origin}/join?${query}`, name, errors);
  await tab.getByRole("button", { name: "Help compute" }).click();
  await tab.getByRole("button", { name: "Stop helping" }).waitFor();
  return tab;
}

const kUpMs = 240_000;

test("three tabs hold experts that none of them could, and the page answers",
  { skip, timeout: 480_000 }, async () => {
    const expected = await storyAlone();
    const server = await serve(packageOf("weft-tiny-moe", "f32"),
      [...kArguments, "--plan", "experts", "--worker-memory", String(kHubBytes)]);
    const errors = [];
    try {
      const tabs = [];
      for (const name of ["One", "Two", "Three"]) {
        tabs.push(await help(server.origin, name, errors));
      }
      const swarm = await eventually(async () => {
        const picture = await swarmOf(server.origin);
        assert.equal(picture.state, "up", JSON.stringify(picture));
        return picture;
      }, kUpMs);
      for (const worker of swarm.workers) {
        assert.ok(worker.experts_held < swarm.experts_needed, `${worker.name} holds all experts`);
        assert.ok(worker.used_bytes <= worker.memory_bytes, JSON.stringify(worker));
      }
      const chat = await openPage(server.origin, "chat", errors);
      await chat.getByRole("textbox", { name: "Message" }).fill(kStory);
      await chat.keyboard.press("Enter");
      await eventually(async () => {
        const [saved] = await chat.evaluate(() => Object.keys(localStorage)
          .filter((key) => key.startsWith("weft.chat."))
          .map((key) => JSON.parse(localStorage.getItem(key))));
        const answer = saved?.messages.at(-1);
        assert.equal(answer?.phase, "done", JSON.stringify(answer));
        assert.equal(answer.text, expected);
      }, 150_000);
      for (const tab of tabs) await tab.getByText("Expert calls").waitFor();
      const folder = process.env.WEFT_SCREENSHOTS;
      if (folder) {
        await tabs[0].screenshot({ path: join(folder, "experts_tab.png") });
        await chat.screenshot({ path: join(folder, "experts_chat.png") });
      }
      assert.deepEqual(errors, []);
    } finally {
      await server.stop();
    }
  });
