// Makes docs/figures/losing-a-device.png, a moving picture (APNG) of the page /swarm: two of three
// workers answer, one of them is killed in the middle of an answer, and comes back. All of it is
// real but the names, since the three are processes of one machine.
//   node tools/screenshots/losing.mjs [FILE]
// Wants what ./dev build and ./dev run build, and Debian's package apngasm.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { launchBrowser } from "../../tests/e2e/lib/tabs.mjs";
import {
  eventually, nativeWorker, packageOf, root, serve, stream, swarmOf,
} from "../../tests/e2e/lib/weft.mjs";

const file = resolve(process.argv[2] ?? join(root, "docs/figures/losing-a-device.png"));
const work = mkdtempSync(join(tmpdir(), "weft-losing-"));
const kView = { width: 1200, height: 1000 };
const kFrameMs = 250;
const kNames = ["Heron's laptop", "Otter's desktop", "Wren's laptop"];
// Two of the three hold the model, and the third can take the place of either.
const kOffer = "16000000";
const kPrompt = "Tell me a long story about a fox.";

function start(origin, name) {
  const cache = join(work, name.replace(/\W/g, ""));
  return nativeWorker(origin, ["--name", name, "--memory", kOffer, "--threads", "1",
    "--cache", cache]);
}

// One answer after another, so that there is always one under way; the texts of all.
function keepAsking(origin) {
  const talk = { isOver: false, texts: [] };
  talk.done = (async () => {
    while (!talk.isOver) {
      const messages = [{ role: "user", content: kPrompt }];
      const { text } = await stream(origin, { messages, max_tokens: 400 });
      talk.texts.push(text);
    }
  })();
  return talk;
}

// From the state of the swarm to the cards of its devices.
async function partOf(page) {
  const whole = await page.locator(".swarm-page").boundingBox();
  const above = await page.getByRole("heading", { name: "Swarm", exact: true }).boundingBox();
  const below = await page.locator(".device-card").first().boundingBox();
  return { x: whole.x, y: above.y, width: whole.width, height: below.y + 200 - above.y };
}

// Pictures of the page until `isOver`; each with the time at which it was taken.
async function film(page, frames, isOver) {
  const clip = await partOf(page);
  await page.screenshot({ clip }); // the first one takes seconds
  while (!isOver()) {
    const beginMs = Date.now();
    frames.push({ png: await page.screenshot({ animations: "disabled", clip }), beginMs });
    await page.waitForTimeout(Math.max(0, kFrameMs - (Date.now() - beginMs)));
  }
}

// As many further pictures: a busy machine takes longer for each.
async function pictures(frames, count) {
  const wanted = frames.length + count;
  await eventually(() => assert.ok(frames.length >= wanted), 120_000);
}

async function untilUp(origin, count) {
  await eventually(async () => {
    const { state, message, workers, stages } = await swarmOf(origin);
    assert.equal(state, "up", message);
    assert.equal(workers.length, count);
    assert.equal(stages.length, 2, JSON.stringify(stages));
  }, 120_000);
}

// Which of the workers has the end of the model.
async function lastOf(origin) {
  const { stages, workers } = await swarmOf(origin);
  return workers.find(({ id }) => id === stages[1].worker).name;
}

async function play(page, origin, workers) {
  const frames = [];
  let isOver = false;
  const talk = keepAsking(origin);
  const filming = film(page, frames, () => isOver);
  await pictures(frames, 8);
  const lost = await lastOf(origin);
  workers.get(lost).child.kill("SIGKILL");
  await pictures(frames, 14);
  workers.set(lost, start(origin, lost));
  await pictures(frames, 14);
  isOver = talk.isOver = true;
  await Promise.all([filming, talk.done]);
  // What was lost cost no answer and no word of one.
  assert.equal(new Set(talk.texts).size, 1, "every answer is the same");
  return frames;
}

function write(frames) {
  const folder = join(work, "frames");
  mkdirSync(folder);
  const shown = frames.filter(({ png }, i) => i === 0 || !png.equals(frames[i - 1].png));
  for (const [i, { png, beginMs }] of shown.entries()) {
    const name = join(folder, `frame${String(i).padStart(3, "0")}`);
    writeFileSync(`${name}.png`, png);
    const endMs = shown[i + 1]?.beginMs ?? beginMs + 2500;
    writeFileSync(`${name}.txt`, `delay=${Math.round(endMs - beginMs)}/1000\n`);
  }
  execFileSync("apngasm", [file, join(folder, "frame000.png"), "-z2"], { stdio: "ignore" });
  console.log(`${file}: ${shown.length} frames, ${statSync(file).size} bytes`);
}

const server = await serve(packageOf("weft-tiny"),
  ["--no-worker", "--context", "512", "--sessions", "1"]);
const workers = new Map(kNames.map((name) => [name, start(server.origin, name)]));
const browser = await launchBrowser();
try {
  await untilUp(server.origin, kNames.length);
  const page = await (await browser.newContext({ viewport: kView })).newPage();
  await page.goto(`${server.origin}/swarm`);
  await page.getByText(/^Ready: /).waitFor();
  await stream(server.origin, { messages: [{ role: "user", content: kPrompt }], max_tokens: 400 });
  write(await play(page, server.origin, workers));
} finally {
  await browser.close();
  for (const worker of workers.values()) await worker.stop();
  await server.stop();
  rmSync(work, { recursive: true });
}
