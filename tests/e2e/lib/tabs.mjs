// Tabs that help, in headless Chromium: the worker of web/packages/worker without the page around
// it (tests/e2e/harness), built once by Vite.
import assert from "node:assert/strict";
import { existsSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { eventually, root } from "./weft.mjs";

export const kChromium = process.env.CHROMIUM ?? "/usr/bin/chromium";
const kArguments = [
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const kSoftware = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const kHardware = [
  "--ignore-gpu-blocklist",
  "--use-angle=vulkan",
  "--enable-features=Vulkan",
  "--disable-vulkan-surface",
  "--disable-gpu-compositing",
];
const require = createRequire(join(root, "web/package.json"));

export const harness = join(root, "build/e2e/harness");

export function noBrowser() {
  return existsSync(kChromium) ? false : `there is no ${kChromium}`;
}

const kHarnessSources = [
  "tests/e2e/harness", "web/packages/engine", "web/packages/engine-ort", "web/packages/wire",
  "web/packages/worker", "web/package-lock.json",
];

// When the last of what the harness is made of changed, in ms.
function newestSource() {
  let newestMs = 0;
  for (const source of kHarnessSources) {
    const path = join(root, source);
    const names = statSync(path).isDirectory() ? readdirSync(path, { recursive: true }) : [""];
    for (const name of names) newestMs = Math.max(newestMs, statSync(join(path, name)).mtimeMs);
  }
  return newestMs;
}

// Several files of tests want it: it is built once, and again when its sources have changed.
export async function buildHarness() {
  const built = join(harness, "index.html");
  if (existsSync(built) && statSync(built).mtimeMs > newestSource()) return;
  const vite = join(root, "web/node_modules/vite/dist/node/index.js");
  const { build } = await import(pathToFileURL(vite).href);
  await build({
    root: join(root, "tests/e2e/harness"),
    configFile: false,
    logLevel: "error",
    worker: { format: "es" },
    build: {
      outDir: harness,
      emptyOutDir: true,
      target: "es2023",
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      reportCompressedSize: false,
      chunkSizeWarningLimit: 1500,
    },
  });
}

// What Chromium is started with: on its software adapter, or on a GPU with Vulkan.
function launchOptions(isOnGpu = false) {
  return {
    executablePath: kChromium,
    args: [...kArguments, ...(isOnGpu ? kHardware : kSoftware)],
    ignoreDefaultArgs: isOnGpu ? ["--enable-unsafe-swiftshader", "--disable-gpu"] : [],
  };
}

export async function launchBrowser(isOnGpu = false) {
  const { chromium } = require("playwright-core");
  return await chromium.launch(launchOptions(isOnGpu));
}

// With a folder of its own, as people have it; launchBrowser's windows are private.
export async function launchWithFolder(folder, isOnGpu = false) {
  const { chromium } = require("playwright-core");
  return await chromium.launchPersistentContext(folder, launchOptions(isOnGpu));
}

// A tab of `context` on the server's page. What the browser reports as an error is kept.
export class Tab {
  static async open(context, origin) {
    const tab = new Tab();
    tab.origin = origin;
    tab.errors = [];
    tab.page = await context.newPage();
    tab.page.on("pageerror", (error) => tab.errors.push(String(error)));
    tab.page.on("console", (message) => {
      if (message.type() === "error") tab.errors.push(message.text());
    });
    await tab.page.goto(`${origin}/`);
    await tab.page.waitForFunction(() => window.help !== undefined);
    return tab;
  }

  async start(options) {
    await this.page.evaluate((start) => window.help.start(start), {
      serverOrigin: this.origin,
      joinToken: "",
      workerId: options.name,
      engine: "wasm",
      ...options,
    });
  }

  async status() {
    return await this.page.evaluate(() => window.help.status);
  }

  // Every status so far.
  async statuses() {
    return await this.page.evaluate(() => window.statuses);
  }

  async waitFor(phase, timeoutMs = 30_000) {
    return await eventually(async () => {
      const status = await this.status();
      assert.equal(status.phase, phase, JSON.stringify(status));
      return status;
    }, timeoutMs);
  }

  async stop() {
    await this.page.evaluate(() => window.help.stop());
  }

  async close() {
    await this.page.close();
  }
}
