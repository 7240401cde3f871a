// The chat page against the stand-in server: sending, streaming, stopping, asking again, keeping.
import assert from "node:assert/strict";
import { ask, gate, pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const answers = (page) => page.locator(".answer");
const lastAnswer = (page) => answers(page).last();

// Answers each question with the given pieces.
function answerWith(server, ...pieces) {
  server.onChat = async (_body, stream) => {
    stream.begin();
    for (const piece of pieces) stream.text(piece);
    stream.end();
  };
}

pageTest("an answer streams, then shows its figures", {}, async ({ page, server }) => {
  const go = gate();
  server.onChat = async (_body, stream) => {
    stream.begin();
    stream.text("One ");
    stream.text("two ");
    await go.opened;
    await new Promise((resolve) => setTimeout(resolve, 150)); // less is too short for a rate
    stream.text("three.");
    stream.end();
  };
  await page.goto(server.origin);
  await ask(page, "Count to three");
  await lastAnswer(page).getByText("One two").waitFor();
  assert.equal(await lastAnswer(page).getAttribute("aria-busy"), "true");
  await page.getByRole("button", { name: "Stop" }).waitFor();
  go.open();
  await lastAnswer(page).getByText("One two three.").waitFor();
  const figures = await page.locator(".answer-stats").textContent();
  assert.match(figures, /tokens\/s · 3 tokens · first after [\d.]+ (ms|s)/);
  assert.deepEqual(server.requests[0].messages, [{ role: "user", content: "Count to three" }]);
  assert.equal(server.requests[0].stream, true);
  assert.equal(server.requests[0].model, "weft-tiny");
  assert.equal(await page.title(), "Count to three – weft");
});

pageTest("stop ends the request and keeps what was said", {}, async ({ page, server }) => {
  const go = gate();
  server.onChat = async (_body, stream) => {
    stream.begin();
    stream.text("Begun ");
    await go.opened;
  };
  await page.goto(server.origin);
  await ask(page, "Tell me everything");
  await lastAnswer(page).getByText("Begun").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".answer-stats").getByText("Stopped").waitFor();
  await eventually(() => assert.equal(server.cancelled, 1));
  assert.match(await lastAnswer(page).textContent(), /Begun/);
  go.open();
});

pageTest("the conversation is sent along, with the system prompt and temperature", {},
  async ({ page, server }) => {
    answerWith(server, "Fine.");
    await page.goto(server.origin);
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("System prompt").fill("Be brief.");
    await page.getByLabel("As the model suggests").uncheck();
    await page.getByRole("slider", { name: "Temperature" }).fill("0.3");
    await page.getByLabel("Longest answer").fill("50");
    await page.getByRole("button", { name: "Done" }).click();
    await ask(page, "How are you?");
    await lastAnswer(page).getByText("Fine.").waitFor();
    await ask(page, "And now?");
    await eventually(() => assert.equal(server.requests.length, 2));
    const [, body] = server.requests;
    assert.deepEqual(body.messages, [
      { role: "system", content: "Be brief." },
      { role: "user", content: "How are you?" },
      { role: "assistant", content: "Fine." },
      { role: "user", content: "And now?" },
    ]);
    assert.equal(body.temperature, 0.3);
    assert.equal(body.max_tokens, 50);
  });

pageTest("what is typed right after a dialog closed is kept", {}, async ({ page, server }) => {
  await page.goto(server.origin);
  await page.getByRole("button", { name: "Settings" }).click();
  const isOpen = await page.getByRole("button", { name: "Done" }).evaluate(async (done) => {
    done.click();
    for (let turn = 0; turn < 5; turn += 1) await null; // microtasks only: no frame is drawn
    return document.querySelector("dialog[open]") !== null;
  });
  assert.equal(isOpen, false);
});

pageTest("regenerate and edit ask again from there", {}, async ({ page, server }) => {
  let count = 0;
  server.onChat = async (_body, stream) => {
    count += 1;
    stream.begin();
    stream.text(`Answer ${count}.`);
    stream.end();
  };
  await page.goto(server.origin);
  await ask(page, "First");
  await page.getByText("Answer 1.").first().waitFor();
  await ask(page, "Second");
  await page.getByText("Answer 2.").first().waitFor();
  await page.getByRole("button", { name: "Answer again" }).click();
  await page.locator(".answer").getByText("Answer 3.").waitFor();
  assert.equal(await answers(page).count(), 2);
  assert.deepEqual(server.requests[2].messages.map(({ content }) => content),
    ["First", "Answer 1.", "Second"]);
  await page.locator(".question").first().hover();
  await page.getByRole("button", { name: "Edit and ask again" }).first().click();
  await page.getByRole("textbox", { name: "Your message" }).fill("Changed");
  await page.keyboard.press("Enter");
  await page.locator(".answer").getByText("Answer 4.").waitFor();
  assert.equal(await answers(page).count(), 1);
  assert.deepEqual(server.requests[3].messages, [{ role: "user", content: "Changed" }]);
  assert.equal(new Set(server.keys).size, 4);
  // Nothing is lost: what was replaced is one press away.
  await page.getByRole("button", { name: "Earlier version of the question" }).click();
  await page.locator(".answer").getByText("Answer 3.").waitFor();
  assert.equal(await answers(page).count(), 2);
  await page.getByRole("button", { name: "Earlier version of the answer" }).click();
  await page.locator(".answer").getByText("Answer 2.").waitFor();
  await page.reload();
  await page.locator(".answer").getByText("Answer 2.").waitFor();
  assert.equal(await page.getByRole("group", { name: "Versions of the answer" }).textContent(),
    "1 of 2");
});

pageTest("chats survive a reload; new chat starts empty; old ones can be opened and deleted", {},
  async ({ page, server }) => {
    answerWith(server, "Kept.");
    await page.goto(server.origin);
    await ask(page, "Remember me");
    await lastAnswer(page).getByText("Kept.").waitFor();
    await page.reload();
    await lastAnswer(page).getByText("Kept.").waitFor();
    await page.getByRole("button", { name: "New chat" }).click();
    await page.getByRole("heading", { name: "Ask weft-tiny" }).waitFor();
    assert.equal(await answers(page).count(), 0);
    await page.getByRole("button", { name: "Chats" }).click();
    await page.getByRole("button", { name: /^Remember me/ }).click();
    await lastAnswer(page).getByText("Kept.").waitFor();
    await page.getByRole("button", { name: "Chats" }).click();
    await page.getByRole("button", { name: /^Delete “Remember me”/ }).click();
    await page.getByText("There is no chat yet").waitFor();
    await page.keyboard.press("Escape");
    await page.reload();
    await page.getByRole("heading", { name: "Ask weft-tiny" }).waitFor();
    await eventually(async () => assert.deepEqual(
      await page.evaluate(() => Object.keys(localStorage)
        .filter((key) => key.startsWith("weft.chat."))), []));
  });

pageTest("Shift+Enter makes a line, an input method's Enter does not send", {},
  async ({ page, server }) => {
    answerWith(server, "Yes.");
    await page.goto(server.origin);
    const box = page.getByRole("textbox", { name: "Message" });
    await box.fill("one");
    await box.press("Shift+Enter");
    await box.pressSequentially("two");
    assert.equal(await box.inputValue(), "one\ntwo");
    await box.evaluate((area) => {
      area.dispatchEvent(new KeyboardEvent("keydown",
        { key: "Enter", isComposing: true, bubbles: true, cancelable: true }));
      area.dispatchEvent(new KeyboardEvent("keydown",
        { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }));
    });
    assert.equal(server.requests.length, 0);
    await box.press("Enter");
    await lastAnswer(page).getByText("Yes.").waitFor();
    assert.equal(server.requests[0].messages[0].content, "one\ntwo");
    assert.equal(await box.inputValue(), "");
  });

pageTest("hostile answers stay text", {}, async ({ page, server }) => {
  const hostile = "<img src=x onerror=\"window.hit=1\"> [x](javascript:window.hit=1) " +
    "<script>window.hit=1</script>\n\n```html\n<svg onload=window.hit=1>\n```\n\n**b<i>c</i>**";
  answerWith(server, hostile);
  await page.goto(server.origin);
  await ask(page, "Attack");
  await page.locator(".answer-foot").waitFor();
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await lastAnswer(page).locator(".prose").locator("img, script, a, i, svg[onload]")
    .count(), 0);
  const shown = await lastAnswer(page).locator(".prose").textContent();
  for (const part of ["<img src=x", "[x](javascript:", "<svg onload", "b<i>c</i>"]) {
    assert.ok(shown.includes(part), `${part} is shown as it is`);
  }
  assert.equal(await lastAnswer(page).locator("strong").textContent(), "b<i>c</i>");
});

const kRich = `# Fruit

| Name | Price | Where it comes from |
| :--- | ---: | --- |
| Apple | **1.20** | [the *north*](https://example.com/north) |

- [x] bought
- [ ] eaten
  - one
  - two

> A quote with \`code\` and ~~mistakes~~.

\`\`\`js
const apples = 3; // red
\`\`\`

The root is \\(\\sqrt{x_1^2}\\), and $5 or $6 is a price; \\(\\nothing\\) is none.

$$
\\sum_{i=1}^n i = \\frac{n(n+1)}{2}
$$

![A pear](https://example.com/pear.png) https://example.org/plain`;

pageTest("tables, tasks, links, formulas and colours of code are drawn, on a narrow phone too",
  { viewport: { width: 320, height: 640 } }, async ({ page, server }) => {
    answerWith(server, kRich);
    await page.goto(server.origin);
    await ask(page, "Fruit?");
    await page.locator(".answer-foot").waitFor();
    const prose = lastAnswer(page).locator(".prose");
    assert.deepEqual(await prose.locator("th").allTextContents(),
      ["Name", "Price", "Where it comes from"]);
    assert.equal(await prose.locator("td strong").textContent(), "1.20");
    assert.deepEqual(await prose.getByRole("checkbox").evaluateAll((boxes) =>
      boxes.map((box) => box.checked)), [true, false]);
    assert.equal(await prose.locator("li li").count(), 2);
    assert.equal(await prose.locator("blockquote del").textContent(), "mistakes");
    assert.deepEqual(await prose.locator("a").evaluateAll((links) =>
      links.map((link) => [link.textContent, link.href, link.rel.split(" ").includes("noopener")])),
    [["the north", "https://example.com/north", true],
      ["A pear", "https://example.com/pear.png", true],
      ["https://example.org/plain", "https://example.org/plain", true]]);
    await prose.locator("math msqrt msub, math msqrt msubsup").first().waitFor();
    assert.equal(await prose.locator(".math-display mfrac").count(), 1);
    assert.deepEqual(await prose.locator(".math-source").allTextContents(), ["\\(\\nothing\\)"]);
    await prose.locator(".hljs-keyword").getByText("const").waitFor();
    assert.equal(await prose.locator("pre").textContent(), "const apples = 3; // red");
    assert.equal(await page.locator(".chat-scroller").evaluate((scroller) =>
      scroller.scrollWidth > scroller.clientWidth), false);
  });

pageTest("errors are sentences with what to do", {}, async ({ page, server, errors }) => {
  const cases = [
    [(stream) => stream.refuse(400, "The conversation has 9000 tokens; start a new chat.",
      "context_length_exceeded"), /9000 tokens; start a new chat\./],
    [(stream) => stream.refuse(503, "The queue is full", "unavailable"),
      /The queue is full\..*Wait until the swarm is up/],
    [(stream) => {
      stream.begin();
      stream.text("Half an ");
      stream.error("Worker 3 left and nobody can replace it.");
    }, /Half an.*Worker 3 left and nobody can replace it\..*Wait until the swarm is up/],
    [(stream) => stream.drop(), /The server does not answer\.Check that weft is running/],
  ];
  await page.goto(server.origin);
  for (const [play, expected] of cases) {
    server.onChat = async (_body, stream) => play(stream);
    await ask(page, "Try");
    await lastAnswer(page).locator(".answer-foot").waitFor();
    assert.match(await lastAnswer(page).textContent(), expected);
  }
  // What failed can be asked again, and half an answer is not taken for a whole one.
  answerWith(server, "Now it works.");
  await page.getByRole("button", { name: "Answer again" }).click();
  await lastAnswer(page).getByText("Now it works.").waitFor();
  errors.length = 0; // Chromium reports the refused requests
});

pageTest("a wait says how many requests come first, then how much of the prompt is read", {},
  async ({ page, server }) => {
    const go = gate();
    let stream = null;
    server.onChat = async (_body, theStream) => {
      stream = theStream;
      stream.begin();
      await go.opened;
      stream.text("At last.");
      stream.end();
    };
    await page.goto(server.origin);
    await page.getByText("Ready: 3 devices").first().waitFor();
    await ask(page, "Me too");
    await lastAnswer(page).getByText("Reading the prompt").waitFor();
    const say = (words) => stream.raw(`: progress ${JSON.stringify(words)}\n\n`);
    say({ loading: "qwen3-8b", percent: 40 });
    await lastAnswer(page).getByText("Loading qwen3-8b, 40%").waitFor();
    say({ requests_ahead: 2 });
    await lastAnswer(page).getByText("2 requests ahead of yours").waitFor();
    say({ requests_ahead: 0 });
    await lastAnswer(page).getByText("yours is the next request").waitFor();
    say({ prompt_tokens: 1200, prompt_done: 320 });
    await lastAnswer(page).getByText("Reading the prompt, 320 of 1\u202f200 tokens").waitFor();
    stream.raw(": waiting\n\n: progress nonsense\n\n");
    server.show({ state: "preparing", message: "Preparing: 2 devices load." });
    await lastAnswer(page).getByText("Waiting for the swarm. Preparing: 2 devices").waitFor();
    server.show({ state: "up" });
    await lastAnswer(page).getByText("320 of 1\u202f200 tokens").waitFor();
    go.open();
    await lastAnswer(page).getByText("At last.").waitFor();
    assert.equal(await lastAnswer(page).locator(".waiting").count(), 0);
  });

pageTest("an answer goes on while another page is looked at", {}, async ({ page, server }) => {
  const go = gate();
  server.onChat = async (_body, stream) => {
    stream.begin();
    stream.text("Before. ");
    await go.opened;
    stream.text("After.");
    stream.end();
  };
  await page.goto(server.origin);
  await ask(page, "Go on");
  await lastAnswer(page).getByText("Before.").waitFor();
  await page.getByRole("link", { name: "Swarm", exact: true }).first().click();
  await page.getByRole("heading", { name: "Swarm", level: 1 }).waitFor();
  go.open();
  await page.goBack();
  await lastAnswer(page).getByText("Before. After.").waitFor();
  assert.equal(server.cancelled, 0);
});

pageTest("an answer can be copied, over plain http too", {}, async ({ page, server }) => {
  // Where a page came over http from another device, browsers have no navigator.clipboard.
  await page.addInitScript(() => {
    Object.defineProperty(navigator, "clipboard", { value: undefined });
  });
  answerWith(server, "A **weft** is a thread.");
  await page.goto(server.origin);
  await ask(page, "What is it?");
  await page.getByRole("button", { name: "Copy the answer" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  await page.getByRole("textbox", { name: "Message" }).focus();
  await page.keyboard.press("Control+V");
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(),
    "A **weft** is a thread.");
});

pageTest("scrolling up is respected, and the end can be reached again", {},
  async ({ page, server }) => {
    const go = gate();
    server.onChat = async (_body, stream) => {
      stream.begin();
      for (let line = 0; line < 60; line += 1) stream.text(`Line ${line}\n\n`);
      await go.opened;
      for (let line = 60; line < 80; line += 1) stream.text(`Line ${line}\n\n`);
      stream.end();
    };
    await page.goto(server.origin);
    await ask(page, "Many lines");
    await lastAnswer(page).getByText("Line 59").waitFor();
    const scroller = page.locator(".chat-scroller");
    const below = () => scroller.evaluate((it) => it.scrollHeight - it.scrollTop - it.clientHeight);
    await eventually(async () => assert.ok(await below() < 5));
    await scroller.evaluate((it) => it.scrollTo(0, 100));
    await page.getByRole("button", { name: "Latest" }).waitFor();
    go.open();
    await lastAnswer(page).getByText("Line 79").waitFor({ state: "attached" });
    assert.equal(await scroller.evaluate((it) => it.scrollTop), 100);
    await page.getByRole("button", { name: "Latest" }).click();
    await eventually(async () => assert.ok(await below() < 5));
  });
