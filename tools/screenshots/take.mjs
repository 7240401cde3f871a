// Takes the pictures of docs/screenshots, and more of them to be looked at: a swarm of three
// devices (the built-in worker and two tabs, none of which could hold the model) that answers.
//   node tools/screenshots/take.mjs [FOLDER]
// Without a folder it writes docs/screenshots/{chat,join,swarm}.png; with one, every page light and
// dark, on a desktop and on a phone. Wants what ./dev build and ./dev run build.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";

import { launchBrowser } from "../../tests/e2e/lib/tabs.mjs";
import { eventually, packageOf, root, serve, swarmOf } from "../../tests/e2e/lib/weft.mjs";

const folder = process.argv[2];
const kDesktop = { width: 1280, height: 800 };
const kPhone = { width: 390, height: 844 };
const kTabs = [["Heron, Chrome on Linux", 24_600_000], ["Otter, Chrome on Windows", 24_600_000]];
const kQuestions = ["What is weft?", "Tell me a story about a little fox who lost a red ball."];

async function openTab(browser, origin, [name, memoryBytes]) {
  const page = await (await browser.newContext({ viewport: kDesktop })).newPage();
  const query = new URLSearchParams({ name, memory: String(memoryBytes), engine: "wasm" });
  await page.goto(`${origin}/join?${query}`);
  await page.getByRole("button", { name: "Help compute" }).click();
  return page;
}

async function askAll(page) {
  for (const question of kQuestions) {
    await page.getByRole("textbox", { name: "Message" }).fill(question);
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Send" }).waitFor({ timeout: 60_000 });
  }
}

// In the middle of an answer, so that the devices are seen to compute.
async function whileAnswering(page, take) {
  await page.getByRole("textbox", { name: "Message" }).fill("Tell me a longer story.");
  await page.keyboard.press("Enter");
  await page.locator(".answer").last().locator("p").nth(0).waitFor();
  await page.waitForTimeout(600);
  await take();
}

const path = (name) => join(folder ?? join(root, "docs/screenshots"), `${name}.png`);

async function takeForDocs(browser, origin, helper) {
  const context = await browser.newContext({ viewport: kDesktop });
  const chat = await context.newPage();
  const swarm = await context.newPage();
  await chat.goto(origin);
  await swarm.goto(`${origin}/swarm`);
  await askAll(chat);
  await whileAnswering(chat, async () => {
    await chat.screenshot({ path: path("chat") });
    await swarm.screenshot({ path: path("swarm"), fullPage: true });
    await helper.screenshot({ path: path("join"), fullPage: true });
  });
}

async function takeAll(browser, origin, helper) {
  for (const [size, viewport] of [["desktop", kDesktop], ["phone", kPhone]]) {
    for (const colorScheme of ["light", "dark"]) {
      const context = await browser.newContext({ viewport, colorScheme });
      const end = `${size}-${colorScheme}`;
      const chat = await context.newPage();
      await chat.goto(origin);
      await chat.waitForTimeout(500);
      await chat.screenshot({ path: path(`welcome-${end}`) });
      await askAll(chat);
      const other = await context.newPage();
      await other.goto(`${origin}/swarm`);
      await whileAnswering(chat, async () => {
        await chat.screenshot({ path: path(`chat-${end}`) });
        await other.screenshot({ path: path(`swarm-${end}`), fullPage: true });
      });
      await other.goto(`${origin}/join`);
      await other.getByText("Downloads up to").waitFor();
      await other.screenshot({ path: path(`join-form-${end}`), fullPage: true });
      await helper.setViewportSize(viewport);
      await helper.emulateMedia({ colorScheme });
      await helper.screenshot({ path: path(`helping-${end}`), fullPage: true });
      await context.close();
    }
  }
}

if (folder !== undefined && !existsSync(folder)) mkdirSync(folder, { recursive: true });
const server = await serve(packageOf("weft-tiny"),
  ["--worker-memory", "11600000", "--threads", "1", "--context", "512", "--sessions", "1"]);
const browser = await launchBrowser();
try {
  const tabs = [];
  for (const tab of kTabs) tabs.push(await openTab(browser, server.origin, tab));
  await eventually(async () => {
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.state, "up", swarm.message);
    assert.equal(swarm.stages.length, 3);
  }, 60_000);
  await (folder === undefined ? takeForDocs : takeAll)(browser, server.origin, tabs[1]);
} finally {
  await browser.close();
  await server.stop();
}
