// How fast a tab of Chromium loads a model, beside the line: the same page fetching every blob and
// throwing it away.
//
//   ./dev bench tab-loading [--model 0.6b] [--package DIR] [--rounds 3] [--gpu] [--private]
//                           [--threads N] [--parts loading,beside]
//
// loading is one line of JSON; medians, in MB/s, of rounds in which all are measured one after the
// other:
//   line      the page's own speed, four blobs at once
//   kept      every blob fetched, verified and kept by the tab's threads, without an engine
//   kept_here the same on the thread that asks
//   download  the same while a tab loads: from the first byte until all are there
//   load      until the tab could compute
//   again     the same with what is kept
// and shares of the line. --gpu wants a GPU with Vulkan. Without it the software adapter computes,
// which takes the processor from the download: there `kept` is what counts. --private: a private
// window, whose files go through another process of the browser.
//
// beside is a line with what a tab's steps take, through two layers, in ms: median and nine tenths
// of them `alone`; with a layer loaded `between` two steps; and with layers brought `beside` them;
// and MB/s of both ways. The weights lie in memory before.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { buildHarness, harness, launchBrowser, launchWithFolder, Tab }
  from "../tests/e2e/lib/tabs.mjs";
import { eventually, serve, swarmOf, weft } from "../tests/e2e/lib/weft.mjs";
import { packageOf } from "./lib/packages.mjs";
import { median, percentile, rounded } from "./lib/statistics.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string", default: weft },
    model: { type: "string", default: "0.6b" },
    package: { type: "string" },
    rounds: { type: "string", default: "3" },
    gpu: { type: "boolean", default: false },
    private: { type: "boolean", default: false },
    threads: { type: "string" },
    parts: { type: "string", default: "loading,beside" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model NAME --package DIR --rounds N --gpu --private --threads N " +
    "--parts LIST");
  process.exit(0);
}
const kLanes = 4; // blobs at once, as a tab fetches them
// As many as a tab has, where nothing else is said.
const threads = Number(values.threads ?? Math.max(1, Math.min(kLanes, cpus().length - 1)));
const kComputed = 2;
const kLoadMs = 300_000;

const folder = values.package ?? packageOf(values.weft, values.model).folder;
const json = readFileSync(join(folder, "weft.json"));
const manifest = JSON.parse(json);
const digests = Object.keys(manifest.blobs);
const byteCount = digests.reduce((sum, it) => sum + manifest.blobs[it].byte_count, 0);
const megabytesPerSecond = (ms) => byteCount / ms / 1000;

const kMachine = {
  model: manifest.name, mb: rounded(byteCount / 1e6), window: values.private ? "private" : "usual",
  processor: cpus()[0].model, cores: cpus().length,
};

async function timed(page, method, request) {
  const { ms, error } = await page.evaluate(([name, it]) => window[name](it), [method, request]);
  if (error) throw new Error(error);
  return megabytesPerSecond(ms);
}

async function measureKept(page, origin, threadCount) {
  const digest = createHash("sha256").update(json).digest("hex");
  return await timed(page, "timeDownload", { origin, digest, threads: threadCount });
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
    const kept = await measureKept(page, origin, threads);
    const kept_here = await measureKept(page, origin, 0);
    await forgetCache(page);
    const { download, load } = await measureLoad(tab);
    const again = (await measureLoad(tab)).load;
    return { line, kept, kept_here, download, load, again };
  } finally {
    await tab.close();
  }
}

async function measureAll(context, origin) {
  const rounds = [];
  for (let i = 0; i < Number(values.rounds); ++i) {
    rounds.push(await measureRound(context, origin));
  }
  const names = ["line", "kept", "kept_here", "download", "load", "again"];
  const middle = (of) => median(rounds.map(of));
  const figures = names.map((name) => [name, rounded(middle((it) => it[name]))]);
  const shares = names.slice(1).map((name) =>
    [`share_${name}`, rounded(middle((it) => it[name] / it.line), 2)]);
  return { figure: "tab loading", ...kMachine, ...Object.fromEntries([...figures, ...shares]) };
}

// Layers [0, kComputed) compute, those between them and the head are loaded.
async function measureBeside(context, origin) {
  const tab = await Tab.open(context, origin);
  try {
    const loaded = manifest.layers.length - 1 - kComputed;
    const bytes = manifest.layers.slice(kComputed, -1)
      .reduce((sum, { weight_bytes }) => sum + weight_bytes, 0);
    const { alone, between, beside, loadMs, error } =
      await tab.page.evaluate((it) => window.timeBeside(it), { computed: kComputed, loaded });
    if (error) throw new Error(error);
    const totalOf = (times) => times.reduce((sum, ms) => sum + ms, 0);
    const stepsOf = (times) => ({
      median: rounded(median(times)), p90: rounded(percentile(times, 90)),
      per_s: rounded((times.length * 1000) / totalOf(times)),
    });
    const betweenMs = totalOf(between);
    return {
      figure: "steps beside loading", ...kMachine, alone: stepsOf(alone), between: stepsOf(between),
      beside: stepsOf(beside), mb_per_s_between: rounded(bytes / betweenMs / 1000),
      mb_per_s_beside: rounded(bytes / loadMs / 1000),
    };
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
  const parts = { loading: measureAll, beside: measureBeside };
  for (const name of values.parts.split(",")) {
    console.log(JSON.stringify(await parts[name](context, server.origin)));
  }
} finally {
  await browser.close();
  await server.stop();
  rmSync(profile, { recursive: true, force: true });
}
