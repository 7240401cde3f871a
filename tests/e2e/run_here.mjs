// "Run it all here": a tab with our WebGPU engine (on a software adapter) takes the whole model
// over from the server's own worker, answers as that one does, and gives it back when it closes in
// the middle of an answer. A tab that is not the owner's needs consent, asked for on /swarm.
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { proxy } from "./lib/proxy.mjs";
import { launchBrowser, noBrowser } from "./lib/tabs.mjs";
import {
  complete, eventually, packageOf, reasonToSkip, root, serve, stream, swarmOf,
} from "./lib/weft.mjs";

const page = join(root, "web/dist/index.html");
const skip = noBrowser() || reasonToSkip("stories260K") ||
  (existsSync(page) ? false : `there is no ${page}`);
const kName = "Whole tab";
const kBase = {
  model: "stories260K",
  messages: [{ role: "user", content: "Once upon a time" }],
};
const kGreedy = { ...kBase, max_tokens: 24, temperature: 0 };
const kSampled = { ...kBase, max_tokens: 24, temperature: 0.9, top_p: 0.95, seed: 7 };
const kLong = { ...kBase, max_tokens: 120, temperature: 0 };

const kScreenshots = join(root, "build/e2e/screenshots");

let browser = null;
let server = null;
before(async () => {
  if (skip) return;
  mkdirSync(kScreenshots, { recursive: true });
  browser = await launchBrowser();
  server = await serve(packageOf("stories260K"), ["--web-root", join(root, "web/dist"),
    "--context", "256", "--sessions", "2", "--threads", "1"]);
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const textOf = ({ choices: [choice] }) => choice.message.content;

// The names of the devices that the active plan runs on.
async function runningOn() {
  const { state, stages, workers, message } = await swarmOf(server.origin);
  assert.equal(state, "up", message);
  return stages.map(({ worker }) => workers.find(({ id }) => id === worker).name);
}

async function helper(errors, origin = server.origin) {
  const tab = await (await browser.newContext()).newPage();
  tab.on("pageerror", (error) => errors.push(String(error)));
  await tab.goto(`${origin}/join?${new URLSearchParams({
    name: kName, memory: String(400 * 2 ** 20), engine: "webgpu",
  })}`);
  await tab.getByRole("button", { name: "Help compute" }).click();
  return tab;
}

test("a tab runs the whole model, and its closing loses no answer",
  { skip, timeout: 900_000 }, async () => {
    const errors = [];
    await eventually(async () => assert.deepEqual((await runningOn()).length, 1), 60_000);
    const greedy = textOf(await complete(server.origin, kGreedy));
    const sampled = textOf(await complete(server.origin, kSampled));
    const long = textOf(await complete(server.origin, kLong));
    assert.notEqual(greedy, sampled);

    const tab = await helper(errors);
    await tab.getByRole("button", { name: "Run it all here" }).click({ timeout: 240_000 });
    await eventually(async () => assert.deepEqual(await runningOn(), [kName]), 240_000);
    await tab.getByText("This device computes the whole model by itself")
      .waitFor({ timeout: 240_000 });
    await tab.screenshot({ path: join(kScreenshots, "run_here.png") });

    const [once, again] = await Promise.all([
      complete(server.origin, kGreedy), complete(server.origin, kSampled),
    ]);
    assert.equal(textOf(once), greedy);
    assert.equal(textOf(again), sampled);
    assert.deepEqual(await runningOn(), [kName]);

    let isClosed = false;
    const { text, finishReason } = await stream(server.origin, kLong, async () => {
      if (isClosed) return;
      isClosed = true;
      await tab.close();
    });
    assert.equal(finishReason, "length");
    assert.equal(text, long);
    await eventually(async () => assert.notDeepEqual(await runningOn(), [kName]));
    assert.deepEqual(errors, []);
  });

test("the work can be shared again", { skip, timeout: 900_000 }, async () => {
  const errors = [];
  const tab = await helper(errors);
  await tab.getByRole("button", { name: "Run it all here" }).click({ timeout: 240_000 });
  await eventually(async () => assert.deepEqual(await runningOn(), [kName]), 240_000);
  await tab.getByRole("button", { name: "Share the work again" }).click();
  await tab.getByRole("button", { name: "Run it all here" }).waitFor({ timeout: 240_000 });
  await tab.close();
  await eventually(async () => assert.notDeepEqual(await runningOn(), [kName]), 60_000);
  assert.deepEqual(errors, []);
});

// Who comes through something that others come through, too, is not taken for the owner.
test("a stranger's tab needs the owner's consent, and silence is a no",
  { skip, timeout: 900_000 }, async (t) => {
    const line = await proxy(server.origin, () => false,
      { added: { "x-forwarded-for": "192.0.2.7" } });
    t.after(() => line.close());
    const errors = [];
    const tab = await helper(errors, line.origin);
    const ask = tab.getByRole("button", { name: "Run it all here" });
    const owner = await (await browser.newContext()).newPage();
    owner.on("pageerror", (error) => errors.push(String(error)));
    await owner.goto(`${server.origin}/swarm`);
    const dialog = owner.getByRole("dialog", { name: "Run it all on one device?" });
    await eventually(async () => {
      const { workers } = await swarmOf(server.origin);
      assert.equal(workers.find(({ name }) => name === kName)?.check, "passed");
    }, 240_000);

    await ask.click();
    await tab.getByText("The swarm's owner is asked on its page, /swarm, and has 30 s").waitFor();
    const askedMs = Date.now();
    await dialog.getByText(kName).waitFor();
    await owner.screenshot({ path: join(kScreenshots, "consent.png") });
    await tab.getByText("Nobody agreed on the swarm's page within 30 s, which counts as a no.")
      .waitFor({ timeout: 60_000 });
    const waitedMs = Date.now() - askedMs;
    assert(waitedMs > 25_000 && waitedMs < 40_000, `a no after ${waitedMs} ms`);
    await dialog.waitFor({ state: "detached" });
    assert.notDeepEqual(await runningOn(), [kName]);

    await ask.click();
    await tab.getByText(/A device may ask for the whole model once a minute: try again in \d+ s/)
      .waitFor();
    await tab.close();
    assert.deepEqual(errors, []);
  });
