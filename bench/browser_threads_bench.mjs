// What threads of browsers are worth to onnxruntime-web: a decode step of a model on 1, 2 and 4
// threads, the time of the known kernel on as many, by which a tab chooses, and what it chooses.
//
//   ./dev bench browser-threads [--model MODEL] [--steps 40] [--browsers chromium,firefox,webkit]
//
// One line of JSON a browser; medians, in ms. MODEL is a folder of a package (weft-tiny).
import { parseArgs } from "node:util";

import { launchFirefox } from "../tests/e2e/lib/firefox.mjs";
import { buildHarness, harness, launchBrowser } from "../tests/e2e/lib/tabs.mjs";
import { packageOf, serve } from "../tests/e2e/lib/weft.mjs";
import { launchWebKit } from "../tests/e2e/lib/webkit.mjs";
import { median } from "./lib/statistics.mjs";

const { values } = parseArgs({
  options: {
    weft: { type: "string" },
    model: { type: "string" },
    steps: { type: "string", default: "40" },
    browsers: { type: "string", default: "chromium,firefox,webkit" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log("Options: --model FOLDER --steps N --browsers NAME,...");
  process.exit(0);
}
const kThreads = [1, 2, 4];
const kPromptTokens = 8;
const kWarmUpSteps = 5;

async function launchChromium() {
  const browser = await launchBrowser();
  const page = await browser.newPage();
  return {
    goto: (url) => page.goto(url),
    until: (body) => page.waitForFunction(body),
    evaluate: (body, argument) => page.evaluate(body, argument),
    close: () => browser.close(),
  };
}

const kLaunch = { chromium: launchChromium, firefox: launchFirefox, webkit: launchWebKit };

function stepsOf(count) {
  const ids = Array.from({ length: kPromptTokens }, (_, i) => 100 + i);
  const steps = [{ ids, firstPosition: 0, generation: 0 }];
  for (let i = 0; i < count; ++i) {
    steps.push({ ids: [200 + i], firstPosition: kPromptTokens + i, generation: 0 });
  }
  return steps;
}

async function measure(browser, origin) {
  await browser.goto(`${origin}/`);
  await browser.until(() => window.timeRounds !== undefined);
  const steps = stepsOf(kWarmUpSteps + Number(values.steps));
  const run = async (threads) => {
    const result = await browser.evaluate((request) => window.runEngine(request),
      { provider: "wasm", threads, steps, cut: 1 });
    if (result.error) throw new Error(result.error);
    const stepMs = median(result.stepMs.slice(1 + kWarmUpSteps));
    return { stepMs: Number(stepMs.toFixed(2)), detail: result.detail };
  };
  const stepMs = {};
  for (const threads of kThreads) stepMs[threads] = (await run(threads)).stepMs;
  const rounds = await browser.evaluate((counts) => window.timeRounds(counts), kThreads);
  const roundMs = Object.fromEntries(kThreads.map((count, i) => [count, rounds[i]]));
  const cores = await browser.evaluate(() => navigator.hardwareConcurrency);
  return { cores, stepMs, roundMs, chosen: (await run(0)).detail };
}

await buildHarness();
const server = await serve(
  values.model ?? packageOf("weft-tiny"), ["--no-worker", "--web-root", harness]);
try {
  for (const name of values.browsers.split(",")) {
    const browser = await kLaunch[name]();
    try {
      console.log(JSON.stringify({ browser: name, ...(await measure(browser, server.origin)) }));
    } finally {
      await browser.close();
    }
  }
} finally {
  await server.stop();
}
