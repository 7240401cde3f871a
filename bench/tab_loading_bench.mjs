// How fast a tab of Chromium loads a model, beside the line: the same page fetching every blob and
// throwing it away.
//
//   ./dev bench tab-loading [--model 0.6b] [--package DIR] [--rounds 3] [--gpu] [--private]
//
// One line of JSON; medians, in MB/s, of rounds in which all are measured one after the other:
//   line      the page's own speed, four blobs at once
//   kept      every blob fetched, verified and kept by the tab's threads, without an engine
//   kept_here the same on the thread that asks
//   download  the same while a tab loads: from the first byte until all are there
//   load      until the tab could compute
//   again     the same with what is kept
// and shares of the line. --gpu wants a GPU with Vulkan. Without it the software adapter computes,
// which takes the processor from the download: there `kept` is what counts. --private: a private
// window, whose files go through another process of the browser.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { buildHarness, harness, launchBrowser, launchWithFolder, Tab }
  from "../tests/e2e/lib/tabs.mjs";
import { eventually, serve, swarmOf, weft } from "../tests/e2e/lib/weft.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, rounded } from "./lib/statistics.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: weft },
    model: { type: "string", default: "0.6b" },
    package: { type: "string" },
    rounds: { type: "string", default: "3" },
    gpu: { type: "boolean", default: false },
    private: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model NAME --package DIR --rounds N --gpu --private");
  process.exit(0);
}
const kLanes = 4; // blobs at once, as a tab fetches them
const kThreads = Math.max(1, Math.min(kLanes, cpus().length - 1)); // as a tab has
const kLoadMs = 300_000;

const folder = values.package ?? packageOf(values.weft, values.model).folder;
const json = readFileSync(join(folder, "weft.json"));
const manifest = JSON.parse(json);
const digests = Object.keys(manifest.blobs);
const byteCount = digests.reduce((sum, it) => sum + manifest.blobs[it].byte_count, 0);
const megabytesPerSecond = (ms) => byteCount / ms / 1000;

async function timed(page, method, request) {
  const { ms, error } = await page.evaluate(([name, it]) => window[name](it), [method, request]);
  if (error) throw new Error(error);
  return megabytesPerSecond(ms);
}

async function measureKept(page, origin, threads) {
  const digest = createHash("sha256").update(json).digest("hex");
  return await timed(page, "timeDownload", { origin, digest, threads });
}

// Settles when nothing is kept any more.
async function forgetCache(page) {
  await page.evaluate(() => new Promise((resolve) => {
    const end = window.help.onStatus(() => {
      end();
      resolve();
    });
    window.help.forgetCache();
  }));
}

async function saysOf(origin) {
  return (await swarmOf(origin)).message;
}

// MB/s until all came, where something did, and until the tab could compute.
async function measureLoad(tab) {
  const first = await tab.page.evaluate(() => window.statuses.length);
  const memoryBytes = Math.ceil(1.3 * byteCount) + 1e9;
  const begunAt = await tab.page.evaluate(() => performance.now());
  await tab.start({ name: "bench", memoryBytes, engine: "webgpu" });
  await eventually(async () => {
    const { phase, layers, message } = await tab.status();
    if (phase === "refused") throw new Error(message);
    const isLoaded = layers?.[1] === manifest.layers.length;
    if (!isLoaded) throw new Error(`${phase}: ${message} ${await saysOf(tab.origin)}`);
  }, kLoadMs);
  const times = await tab.page.evaluate((from) => {
    const said = window.statuses.map((status, i) => [status, window.statusTimes[i]]).slice(from);
    const downloading = said.filter(([{ download }]) => download);
    const ready = said.find(([{ layers }]) => layers);
    return { began: downloading[0]?.[1], came: downloading.at(-1)?.[1], ready: ready[1] };
  }, first);
  await tab.stop();
  await tab.waitFor("stopped");
  const began = times.began ?? begunAt;
  return {
    download: megabytesPerSecond(times.came - began), load: megabytesPerSecond(times.ready - began),
  };
}

async function measureRound(context, origin) {
  const tab = await Tab.open(context, origin);
  try {
    const { page } = tab;
    const line = await timed(page, "timeLine", { digests, lanes: kLanes });
    const kept = await measureKept(page, origin, kThreads);
    const kept_here = await measureKept(page, origin, 0);
    await forgetCache(page);
    const { download, load } = await measureLoad(tab);
    const again = (await measureLoad(tab)).load;
    return { line, kept, kept_here, download, load, again };
  } finally {
    await tab.close();
  }
}

await buildHarness();
const server = await serve(folder,
  ["--no-worker", "--context", "512", "--sessions", "1", "--web-root", harness]);
const profile = mkdtempSync(join(tmpdir(), "weft-tab-loading-"));
const browser = values.private ? await launchBrowser(values.gpu)
  : await launchWithFolder(profile, values.gpu);
try {
  const context = values.private ? await browser.newContext() : browser;
  const rounds = [];
  for (let i = 0; i < Number(values.rounds); ++i) {
    rounds.push(await measureRound(context, server.origin));
  }
  const names = ["line", "kept", "kept_here", "download", "load", "again"];
  const middle = (of) => median(rounds.map(of));
  const figures = names.map((name) => [name, rounded(middle((it) => it[name]))]);
  const shares = names.slice(1).map((name) =>
    [`share_${name}`, rounded(middle((it) => it[name] / it.line), 2)]);
  console.log(JSON.stringify({
    figure: "tab loading", model: manifest.name, mb: rounded(byteCount / 1e6),
    window: values.private ? "private" : "usual", processor: cpus()[0].model, cores: cpus().length,
    ...Object.fromEntries([...figures, ...shares]),
  }));
} finally {
  await browser.close();
  await server.stop();
  rmSync(profile, { recursive: true, force: true });
}
