// Many chats, and chats that go on: the list, tabs beside each other, cuts and reloads, tools.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { ask, gate, pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const lastAnswer = (page) => page.locator(".answer").last();
const button = (page, name) => page.getByRole("button", { name, exact: true });

// An answer of a stand-in that says "One two three four" and waits before "three" for the gate.
function slowly(go) {
  return async (_body, stream) => {
    stream.begin();
    stream.text("One ");
    stream.text("two ");
    await go.opened;
    stream.text("three ");
    stream.text("four");
    stream.end();
  };
}

function kept(number, text = `Text ${number}`) {
  return {
    id: `kept${number}`, title: `Kept ${number}`, updatedAtMs: number,
    messages: [
      { role: "user", id: "q", text: "A question" },
      { role: "assistant", id: "a", text, phase: "done" },
    ],
  };
}

function keep(page, chats) {
  return page.addInitScript((all) => {
    if (localStorage.length > 0) return;
    for (const chat of all) localStorage.setItem(`weft.chat.${chat.id}`, JSON.stringify(chat));
  }, chats);
}

pageTest("chats are found, renamed, saved, read again and deleted after a question", {},
  async ({ page, server }) => {
    const chats = Array.from({ length: 60 }, (_, i) => kept(i + 1));
    await keep(page, chats);
    await page.goto(server.origin);
    await button(page, "Chats").click();
    await page.getByRole("button", { name: "More (10)" }).click();
    await page.getByRole("button", { name: /^Kept 1\b/ }).waitFor();
    const search = page.getByRole("searchbox", { name: "Search the chats" });
    await search.fill("text 23");
    await page.getByText("1 chat found").waitFor();
    await button(page, "Rename “Kept 23”").click();
    await page.getByRole("textbox", { name: "Name of the chat" }).fill("A loom");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^A loom/ }).waitFor();

    const one = page.waitForEvent("download");
    await button(page, "Save “A loom” as a file").click();
    assert.equal((await one).suggestedFilename(), "A-loom.md");
    assert.match(readFileSync(await (await one).path(), "utf8"), /^# A loom\n\n.*Text 23\n$/s);
    const all = page.waitForEvent("download");
    await button(page, "Export all").click();
    const file = { name: "chats.json", mimeType: "application/json",
      buffer: readFileSync(await (await all).path()) };

    await search.fill("");
    await button(page, "Delete all").click();
    await button(page, "Keep them").click();
    await button(page, "Delete all").click();
    await page.getByRole("alertdialog").getByText("Delete 60 chats for good?").waitFor();
    await button(page, "Delete").click();
    await page.getByText("There is no chat yet").waitFor();
    const choose = (chosen) => page.locator("input[type=file]").setInputFiles(chosen);
    await choose({ ...file, buffer: Buffer.from("[]") });
    await page.getByText("This file holds no chats of weft.").waitFor();
    await choose(file);
    await page.getByText("Imported: 60 chats.").waitFor();
    await page.getByRole("button", { name: "More (10)" }).waitFor();
  });

pageTest("each chat has settings of its own, and several are answered at once", {},
  async ({ page, server }) => {
    server.models = [{ id: "weft-tiny" }, { id: "other", state: "not loaded" }];
    const go = gate();
    server.onChat = slowly(go);
    await page.goto(server.origin);
    await ask(page, "First");
    await lastAnswer(page).getByText("One two").waitFor();
    await button(page, "Settings").click();
    await page.getByLabel("System prompt").fill("Be brief.");
    await page.getByText("More", { exact: true }).click();
    await page.getByLabel("Top p").fill("0.5");
    await page.getByLabel("Seed").fill("7");
    await button(page, "Done").click();
    await page.getByRole("combobox", { name: "Model" }).selectOption("other");
    await button(page, "New chat").click();
    await ask(page, "Second");
    await lastAnswer(page).getByText("One two").waitFor();
    assert.equal(server.requests[1].messages.length, 1, "a new chat has the settings of new ones");
    assert.equal(server.requests[1].model, "weft-tiny");
    go.open();
    await lastAnswer(page).getByText("One two three four").waitFor();
    await button(page, "Chats").click();
    await page.getByRole("button", { name: /^First/ }).click();
    await lastAnswer(page).getByText("One two three four").waitFor();
    await ask(page, "And now?");
    await eventually(() => assert.equal(server.requests.length, 3));
    const { model, top_p, seed, messages } = server.requests[2];
    assert.deepEqual({ model, top_p, seed }, { model: "other", top_p: 0.5, seed: 7 });
    assert.deepEqual(messages[0], { role: "system", content: "Be brief." });
  });

pageTest("an answer goes on after a cut and after a reload; a draft is kept", {},
  async ({ page, server, errors }) => {
    const go = gate();
    let attempt = 0;
    server.onChat = async (body, stream) => {
      attempt += 1;
      if (attempt > 1) return slowly(go)(body, stream);
      stream.begin();
      stream.text("One ");
      await new Promise((resolve) => setTimeout(resolve, 100));
      stream.drop();
    };
    await page.goto(server.origin);
    await ask(page, "Count");
    await lastAnswer(page).getByText("One two").waitFor();
    await page.getByRole("textbox", { name: "Message" }).fill("Next I ask");
    await page.reload();
    await eventually(() => assert.equal(server.requests.length, 3));
    assert.equal(new Set(server.keys).size, 1, "the same request each time");
    assert.deepEqual(server.requests[2], server.requests[0]);
    await lastAnswer(page).getByText("One two").waitFor();
    go.open();
    await lastAnswer(page).getByText("One two three four", { exact: true }).waitFor();
    await page.locator(".answer-foot").waitFor();
    assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "Next I ask");
    errors.length = 0; // Chromium reports the cut
  });

pageTest("tabs of a browser are in step, and one of them writes", {},
  async ({ page, server, context }) => {
    const go = gate();
    server.onChat = slowly(go);
    await page.goto(server.origin);
    await ask(page, "Count");
    await lastAnswer(page).getByText("One two").waitFor();
    const other = await context.newPage();
    await other.goto(server.origin);
    await button(other, "Chats").click();
    await other.getByRole("button", { name: /^Count/ }).click();
    await lastAnswer(other).getByText("One two").waitFor();
    await lastAnswer(other).getByText("Another tab of this browser writes this answer.").waitFor();
    // The tab that writes goes away: the other one takes over.
    await page.close();
    await eventually(() => assert.equal(server.requests.length, 2));
    assert.equal(server.keys[1], server.keys[0]);
    const third = await context.newPage();
    await third.goto(server.origin);
    go.open();
    await lastAnswer(other).getByText("One two three four").waitFor();
    await button(third, "Chats").click();
    await button(other, "Chats").click();
    await button(other, "Rename “Count”").click();
    await other.getByRole("textbox", { name: "Name of the chat" }).fill("Numbers");
    await other.keyboard.press("Enter");
    await third.getByRole("button", { name: /^Numbers/ }).waitFor();
    await button(third, "Delete “Numbers”").click();
    await other.getByText("There is no chat yet").waitFor();
    assert.equal(server.requests.length, 2);
  });

pageTest("an answer is stopped from another tab, too", {}, async ({ page, server, context }) => {
  server.onChat = slowly(gate());
  await page.goto(server.origin);
  await ask(page, "Count");
  await lastAnswer(page).getByText("One two").waitFor();
  const other = await context.newPage();
  await other.goto(server.origin);
  await button(other, "Chats").click();
  await other.getByRole("button", { name: /^Count/ }).click();
  await lastAnswer(other).getByText("One two").waitFor();
  await button(other, "Stop").click();
  await eventually(() => assert.equal(server.cancelled, 1));
  for (const tab of [page, other]) {
    await tab.locator(".answer-stats").getByText("Stopped").waitFor();
  }
  assert.equal(server.requests.length, 1);
});

pageTest("thoughts are folded, calls are shown, and the model goes on with what they gave", {},
  async ({ page, server }) => {
    const go = gate();
    server.onChat = async (body, stream) => {
      stream.begin();
      if (body.messages.length > 1) {
        stream.text("It is **12**.");
        return stream.end();
      }
      stream.thought("Adding ");
      stream.thought("is a tool.");
      await go.opened;
      stream.calls([{ index: 0, id: "call_1", type: "function",
        function: { name: "add", arguments: '{"a":7,' } }]);
      stream.calls([{ index: 0, function: { arguments: '"b":5}' } }]);
      stream.end("tool_calls");
    };
    await page.goto(server.origin);
    const tools = [{ type: "function", function: { name: "add" } }];
    await button(page, "Settings").click();
    await page.getByText("More", { exact: true }).click();
    await page.getByLabel("Tools, as JSON").fill("{");
    await page.getByText("This is not JSON.").waitFor();
    await page.getByLabel("Tools, as JSON").fill(JSON.stringify(tools));
    await button(page, "Done").click();
    await ask(page, "What is 7 plus 5?");
    await page.getByText("Thinking …").waitFor();
    assert.equal(await page.locator(".waiting").count(), 0, "the prompt is read by now");
    go.open();
    await page.getByText(/^Thought for/).waitFor();
    assert.equal(await page.getByText("Adding is a tool.").isVisible(), false);
    await page.getByText(/^Thought for/).click();
    await page.getByText("Adding is a tool.").waitFor();
    assert.deepEqual(JSON.parse(await page.getByLabel("Arguments of add").textContent()),
      { a: 7, b: 5 });
    await page.getByLabel("What add gave").fill("12");
    await button(page, "Go on with this").click();
    await lastAnswer(page).locator("strong").getByText("12").waitFor();
    const [first, second] = server.requests;
    assert.deepEqual(first.tools, tools);
    assert.deepEqual(second.messages.slice(1), [
      { role: "assistant", content: "", tool_calls: [{ id: "call_1", type: "function",
        function: { name: "add", arguments: '{"a":7,"b":5}' } }] },
      { role: "tool", content: "12", tool_call_id: "call_1" },
    ]);
  });

pageTest("a server that is gone is told at once, and what is written stays", {},
  async ({ page, server, errors, context }) => {
    await page.goto(server.origin);
    const badge = page.locator(".swarm-aside .state-badge");
    await badge.getByText("Up").waitFor();
    const box = page.getByRole("textbox", { name: "Message" });
    await box.fill("Are you there?");
    await context.setOffline(true);
    server.dropWatchers();
    await badge.getByText("No connection").waitFor();
    assert.equal(await page.locator(".state-up").count(), 0);
    await page.getByText("The server does not answer. What you write is kept.").waitFor();
    await box.press("Enter");
    assert.equal(await box.inputValue(), "Are you there?");
    assert.equal(server.requests.length, 0);
    await context.setOffline(false);
    await badge.getByText("Up").waitFor();
    await box.press("Enter");
    await eventually(() => assert.equal(server.requests.length, 1));
    errors.length = 0; // Chromium reports the lost connection
  });

pageTest("a long chat is shown at its end at once, then all of it is there", {},
  async ({ page, server }) => {
    const section = (number) => `## Part ${number}\n\nSome **words** and \\(x_${number}\\).\n\n` +
      `- a\n- b\n\n\`\`\`js\nconst a = ${number};\n\`\`\`\n\n`;
    const text = Array.from({ length: 300 }, (_, index) => section(index + 1)).join("");
    const chat = { id: "long", title: "Long", updatedAtMs: 1, messages: [
      { role: "user", id: "q", text: "Long, please." },
      { role: "assistant", id: "a", text, phase: "done" },
    ] };
    await page.goto(server.origin);
    await page.evaluate((kept) =>
      localStorage.setItem("weft.chat.long", JSON.stringify(kept)), chat);
    await page.reload();
    await button(page, "Chats").click();
    const atFirst = await page.getByRole("button", { name: /^Long/ }).evaluate((open) =>
      new Promise((resolve) => {
        new MutationObserver((_changes, observer) => {
          const prose = document.querySelector(".prose");
          if (!prose) return;
          observer.disconnect();
          resolve(prose.textContent);
        }).observe(document.body, { subtree: true, childList: true });
        open.click();
      }));
    assert.match(atFirst, /Part 300/);
    assert.doesNotMatch(atFirst, /Part 1Some/);
    const prose = lastAnswer(page).locator(".prose");
    await eventually(async () => {
      assert.equal(await prose.locator(".prose-heading").count(), 300);
      assert.equal(await prose.locator("math").count(), 300);
      assert.equal(await prose.locator(".hljs-keyword").count(), 300);
    });
    assert.ok((await prose.textContent()).startsWith("Part 1Some words"));
    const below = await page.locator(".chat-scroller").evaluate((it) =>
      it.scrollHeight - it.scrollTop - it.clientHeight);
    assert.ok(below < 5, `the end is ${below} pixels below`);
  });

pageTest("what an answer does not need is not loaded", {}, async ({ page, server }) => {
  const loaded = new Map();
  page.on("response", async (response) => {
    const name = /assets\/(\w+)-[\w-]+\.js$/.exec(response.url())?.[1];
    if (name) loaded.set(name, gzipSync(await response.body()).length);
  });
  let text = "Plain words.";
  server.onChat = async (_body, stream) => {
    stream.begin();
    stream.text(text);
    stream.end();
  };
  await page.goto(server.origin);
  await ask(page, "One");
  await lastAnswer(page).locator(".prose").getByText("Plain words.").waitFor();
  // The page and its reader of Markdown; docs/decisions/0029 has what they take.
  assert.deepEqual([...loaded.keys()].filter((name) => /colour|Formula|Curve/.test(name)), []);
  await eventually(() => assert.ok(loaded.has("index") && loaded.has("view")));
  assert.ok(loaded.get("index") < 60_000, `the page has ${loaded.get("index")} bytes`);
  assert.ok(loaded.get("view") < 50_000, `the reader has ${loaded.get("view")} bytes`);
  text = "```js\nconst a = 1;\n```\n\n$x$";
  await ask(page, "Two");
  await lastAnswer(page).locator(".hljs-keyword").waitFor();
  await lastAnswer(page).locator("math").waitFor();
  await eventually(() => assert.ok(loaded.has("colourCode") && loaded.has("drawFormula")));
});
