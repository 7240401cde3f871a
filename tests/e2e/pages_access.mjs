// Who can use the pages: by keyboard, with a screen reader, on a small screen, in both colour
// schemes, in forced colours. axe looks for faults; beside it the browser measures the contrast of
// every text, widths and shifts.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { threeDevices } from "../../web/app/dev/mock_swarm.mjs";
import { ask, gate, pageTest, setUpBrowser } from "./lib/pages.mjs";
import { eventually } from "./lib/weft.mjs";

setUpBrowser();

const kAxe = readFileSync(createRequire(new URL("../../web/package.json", import.meta.url))
  .resolve("axe-core/axe.min.js"), "utf8");

// What axe finds against the page as it is: "rule: the first element".
async function axeProblems(page, rules = {}) {
  await page.evaluate(kAxe);
  return page.evaluate(async (options) => {
    // Formulas and contrast of what moves are measured elsewhere.
    const { violations } = await window.axe.run(document, options);
    return violations.map(({ id, nodes }) => `${id}: ${nodes[0].html.slice(0, 160)}`);
  }, { resultTypes: ["violations"], ...rules });
}

const kAnswer = "# Title\n\nSome **bold** and `code`.\n\n1. one\n2. two\n\n" +
  "| a | b |\n| - | - |\n| 1 | [2](https://example.com) |\n\n- [x] done\n\n> quote\n\n" +
  "\\(x^2\\)\n\n$$\n\\frac{1}{2}\n$$\n\n" +
  "```js\nconst line = 'long enough that it does not fit on the screen of a phone at all';\n```";

// Every page in the states that have most on them.
const kViews = [
  ["chat", "/", "up", async (page, server) => {
    server.onChat = async (_body, stream) => {
      stream.begin();
      stream.thought("A thought.");
      stream.text(kAnswer);
      stream.calls([{ index: 0, id: "c", function: { name: "add", arguments: '{"a":1}' } }]);
      stream.end();
    };
    await ask(page, "A question with averyveryveryveryveryverylongwordthatdoesnotfitanywhere");
    await page.locator(".answer-foot").waitFor();
    await page.getByRole("button", { name: "Answer again" }).click();
    await page.getByRole("group", { name: "Versions of the answer" }).waitFor();
    await page.locator(".math-display math").waitFor();
    await page.locator(".hljs-keyword").first().waitFor();
  }],
  ["chats", "/", "up", async (page) => {
    await ask(page, "Remember me");
    await page.locator(".answer-foot").waitFor();
    await page.getByRole("button", { name: "Chats" }).click();
    await page.getByRole("button", { name: "Delete all" }).click();
  }],
  ["lost", "/", "up", async (page, server) => {
    await page.getByText("Ready: 3 devices").first().waitFor({ state: "attached" });
    await page.context().setOffline(true);
    server.dropWatchers();
    await page.getByText("No connection").first().waitFor({ state: "attached" });
  }],
  ["welcome", "/", "down", (page) => page.getByText("1.2 GB more memory").first().waitFor()],
  ["settings", "/", "up", async (page) => {
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByText("More", { exact: true }).click();
  }],
  ["swarm", "/swarm", "spare", async (page) => {
    await page.getByText("Old tablet").waitFor();
    await page.locator(".history-canvas canvas").first().waitFor();
  }],
  ["admin", "/admin", "up", async (page) => {
    await page.getByRole("button", { name: "Evict Heron, Chrome on Linux" }).click();
    await page.getByRole("button", { name: "Evict it" }).click();
    await page.getByText("1 evicted device").waitFor();
    await page.getByLabel("Name").fill("maths-2");
    await page.getByRole("button", { name: "Make it" }).click();
    await page.getByRole("textbox", { name: "The key" }).waitFor();
  }],
  ["evicting", "/admin", "up", async (page) => {
    await page.getByRole("button", { name: "Evict Heron, Chrome on Linux" }).click();
    await page.getByRole("dialog", { name: "Evict this device?" }).waitFor();
  }],
  ["preparing", "/swarm", "preparing", (page) => page.getByText("Heron").waitFor()],
  ["join", "/join", "up", async (page) => {
    await page.getByText("weft-tiny").waitFor();
    await page.getByText("Advanced").click();
  }],
  ["helping", "/join", "up", async (page) => {
    await page.getByRole("button", { name: "Help compute" }).click();
    await page.getByText("Downloading").first().waitFor();
  }],
];

// Texts whose contrast with what is behind them is below 4.5:1 (3:1 where the text is large).
// Controls that are switched off do not count, as in WCAG 1.4.3.
function lowContrast() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      if (color[3] > 0) layers.push(color);
      if (color[3] === 255) break;
    }
    return layers.reverse().reduce((below, [r, g, b, a]) =>
      [r, g, b].map((value, index) => (value * a + below[index] * (255 - a)) / 255),
    [255, 255, 255]);
  };
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (text === "" || element.closest(":disabled, .visually-hidden, noscript, script")) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(rgba(style.color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const isLarge = parseFloat(style.fontSize) >= 24 ||
      (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${text.slice(0, 40)}`);
  }
  return { found, wasDark: luminance(behind(document.body)) < 0.2 };
}

// Controls without a name, images without a text, ids used twice, headings that skip a level.
function structureProblems() {
  const problems = [];
  const nameOf = (element) => {
    const labelled = (element.getAttribute("aria-labelledby") ?? "").split(" ")
      .map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join(" ");
    return (labelled + (element.getAttribute("aria-label") ?? "") + labels +
      (element.matches("input, textarea, select") ? "" : element.textContent)).trim();
  };
  const controls = "a[href], button, input, textarea, select, summary, progress, dialog[open]";
  for (const element of document.querySelectorAll(controls)) {
    if (nameOf(element) === "") problems.push(`no name: ${element.outerHTML.slice(0, 120)}`);
  }
  for (const image of document.querySelectorAll("img:not([alt]), [role=img]:not([aria-label])")) {
    problems.push(`no text: ${image.outerHTML.slice(0, 120)}`);
  }
  for (const svg of document.querySelectorAll("svg:not([aria-hidden=true]):not([role=img])")) {
    problems.push(`neither hidden nor named: ${svg.outerHTML.slice(0, 80)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of ids) if (ids.filter((other) => other === id).length > 1) problems.push(id);
  for (const list of document.querySelectorAll("ul, ol")) {
    if ([...list.children].some((child) => child.localName !== "li")) problems.push("list");
  }
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")]
    .filter((heading) => heading.checkVisibility())
    .map((heading) => Number(heading.localName[1]));
  levels.forEach((level, index) => {
    if (level > (levels[index - 1] ?? 0) + 1) problems.push(`a heading skips to h${level}`);
  });
  if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
  if (!document.documentElement.lang || document.title === "") problems.push("no language, title");
  return problems;
}

for (const [name, path, swarm, prepare] of kViews) {
  pageTest(`${name}: every text has contrast, light and dark, every control a name`,
    { swarm, colorScheme: "light" }, async ({ page, server, errors }) => {
      await page.goto(server.origin + path);
      await prepare(page, server);
      assert.deepEqual(await page.evaluate(structureProblems), []);
      assert.deepEqual(await axeProblems(page), []);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const { found, wasDark } = await page.evaluate(lowContrast);
        assert.deepEqual(found, [], colorScheme);
        assert.equal(wasDark, colorScheme === "dark");
      }
      // Of axe's rules colours alone can make a difference now.
      assert.deepEqual(await axeProblems(page, { runOnly: ["color-contrast"] }), []);
      if (name === "lost") errors.length = 0; // Chromium reports the lost connection
    });

  // 1280 pixels magnified four times are 320, and 256 of height.
  pageTest(`${name}: fits on 320 pixels in forced colours, and fingers find the buttons`,
    { swarm, viewport: { width: 320, height: 256 }, hasTouch: true, forcedColors: "active" },
    async ({ page, server, errors }) => {
      await page.goto(server.origin + path);
      await prepare(page, server);
      assert.deepEqual(await axeProblems(page), []);
      const { wide, small } = await page.evaluate(() => {
        const scrolls = (element) => element.closest("pre, .visually-hidden, .table-scroller, " +
          ".math-display") !== null;
        const all = [...document.querySelectorAll("body *")];
        return {
          wide: [document.documentElement.scrollWidth,
            ...all.filter((element) => !scrolls(element))
              .map((element) => Math.ceil(element.getBoundingClientRect().right))]
            .filter((right) => right > 320),
          small: all.filter((element) => element.matches("button, .header a, .swarm-strip"))
            .filter((element) => element.checkVisibility() &&
              element.getBoundingClientRect().height < 36)
            .map((element) => element.outerHTML.slice(0, 80)),
        };
      });
      assert.deepEqual(wide, [], "right edges beyond the screen");
      assert.deepEqual(small, [], "buttons that are too small");
      if (name === "lost") errors.length = 0;
    });
}

pageTest("the toggle goes from the system's colours to light, dark and back, and is kept",
  { colorScheme: "dark" }, async ({ page, server }) => {
    await page.goto(server.origin);
    const background = () => page.evaluate(() =>
      getComputedStyle(document.documentElement).backgroundColor);
    const toggle = page.getByRole("button", { name: /^Colours/ });
    const dark = await background();
    // The colours change with the next frame.
    const becomes = (check) => eventually(async () => check(await background()));
    await toggle.click();
    await becomes((now) => assert.notEqual(now, dark));
    const light = await background();
    await page.reload();
    assert.equal(await background(), light);
    await toggle.click();
    await becomes((now) => assert.equal(now, dark));
    await toggle.click();
    await page.getByRole("button", { name: "Colours: as the system. Change" }).waitFor();
  });

pageTest("a whole chat by keyboard, with the focus visible everywhere", {},
  async ({ page, server }) => {
    await page.goto(server.origin);
    await page.getByText("Ready: 3 devices").first().waitFor();
    await page.locator(".skip-link").focus();
    const seen = [];
    for (let step = 0; step < 15; step += 1) {
      seen.push(await page.evaluate(() => {
        const element = document.activeElement;
        const frame = element.closest(".composer") ?? element;
        return {
          name: element.getAttribute("aria-label") ?? element.labels?.[0]?.textContent ??
            element.textContent,
          isVisible: [element, frame].some((it) => getComputedStyle(it).outlineStyle !== "none"),
        };
      }));
      await page.keyboard.press("Tab");
    }
    assert.deepEqual(seen.filter(({ isVisible }) => !isVisible), []);
    assert.deepEqual(seen.map(({ name }) => name), [
      "To the content", "weft", "Chat", "Swarm", "Help", "Colours: as the system. Change",
      "Chats", "Settings", "New chat", "Messages", "What is weft?", "Tell me a short story.",
      "What is 7 plus 5?", "Message", "Help compute with this device",
    ]);
    await page.getByRole("textbox", { name: "Message" }).focus();
    await page.keyboard.type("By keyboard");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.locator(".answer-foot").waitFor({ timeout: 20_000 });
    assert.equal(server.requests[0].messages[0].content, "By keyboard");
    assert.equal(await page.evaluate(() => document.activeElement?.id), "composer-text");
  });

pageTest("dialogs keep the focus and give it back", {}, async ({ page, server }) => {
  await page.goto(server.origin);
  const opener = page.getByRole("button", { name: "Settings" });
  await opener.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Settings" }).waitFor();
  for (let step = 0; step < 12; step += 1) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body ||
      document.activeElement.closest("dialog") !== null), "focus is in the dialog");
  }
  await page.keyboard.press("Escape");
  await page.locator("dialog[open]").waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement?.ariaLabel), "Settings");
});

pageTest("an answer is read out by whole sentences, once", {}, async ({ page, server }) => {
  const go = gate();
  server.onChat = async (_body, stream) => {
    stream.begin();
    for (const piece of ["This is the ", "first sentence. And", " this is"]) stream.text(piece);
    await go.opened;
    stream.text(" the second.");
    stream.end();
  };
  await page.goto(server.origin);
  await page.evaluate(() => {
    window.heard = [];
    new MutationObserver(() => {
      for (const region of document.querySelectorAll("[aria-live=polite].visually-hidden")) {
        if (region.textContent) window.heard.push(region.textContent);
      }
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
  });
  await ask(page, "Speak");
  await page.waitForFunction(() => window.heard.length > 0);
  go.open();
  await page.locator(".answer-foot").waitFor();
  await page.waitForFunction(() => window.heard.at(-1)?.includes("second"));
  assert.deepEqual(await page.evaluate(() => [...new Set(window.heard)]),
    ["This is the first sentence.", "And this is the second."]);
});

pageTest("nothing jumps while pictures come in", {}, async ({ page, server }) => {
  await page.goto(`${server.origin}/swarm`);
  await page.getByText("Ready: 3 devices").waitFor();
  await page.waitForTimeout(300);
  await page.evaluate(() => {
    window.shift = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) window.shift += entry.value;
    }).observe({ type: "layout-shift", buffered: false });
  });
  for (let step = 0; step < 12; step += 1) {
    const workers = threeDevices();
    workers[step % 3].computing = true;
    workers.forEach((worker) => {
      worker.tokens_computed += step * 7;
      worker.us_per_token *= 1 + step / 9;
    });
    server.show({ workers, tokens_per_second: 5 + step * 3.7, generated_tokens: 5000 + step });
    await page.waitForTimeout(100);
  }
  assert.ok(await page.evaluate(() => window.shift) < 0.005);
});

pageTest("with reduced motion nothing moves", { reducedMotion: "reduce" },
  async ({ page, server }) => {
    const workers = threeDevices();
    workers[0].computing = true;
    server.show({ workers });
    await page.goto(`${server.origin}/swarm`);
    await page.locator(".segment.is-computing").waitFor();
    assert.equal(await page.evaluate(() => document.getAnimations().length), 0);
  });
