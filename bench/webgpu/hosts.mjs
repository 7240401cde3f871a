// Where subjects run: Node processes and Chromium. A host has call(method, options, seconds), which
// throws what the subject threw or that it took too long, and close().
import { fork } from "node:child_process";
import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));

async function within(seconds, what, promise) {
  let timer = null;
  const late = new Promise((_, reject) => {
    const message = `${what} took more than ${Math.round(seconds)} s`;
    timer = setTimeout(() => reject(new Error(message)), 1000 * seconds);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export class NodeHost {
  #child;
  #settle = null;

  static async start(args, env) {
    const host = new NodeHost();
    const file = join(here, "subjects/node_subject.mjs");
    const stdio = ["ignore", "inherit", "inherit", "ipc"];
    host.#child = fork(file, args, { stdio, env: { ...process.env, ...env } });
    host.#child.on("message", (answer) => host.#settle?.(answer));
    host.#child.on("exit", (code, signal) => {
      host.#settle?.({ error: `its process ended (${signal ?? code})` });
    });
    await within(60, "starting", host.#answer());
    return host;
  }

  async #answer() {
    const { result, error } = await new Promise((resolve) => (this.#settle = resolve));
    if (error !== undefined) throw new Error(error);
    return result;
  }

  async call(method, options, seconds) {
    const answer = this.#answer();
    if (!this.#child.connected) throw new Error("its process ended");
    this.#child.send({ method, options });
    return await within(seconds, method, answer);
  }

  async close() {
    this.#child.kill("SIGKILL"); // Dawn keeps threads
  }
}

const kTypes = {
  ".html": "text/html",
  ".mjs": "text/javascript",
  ".js": "text/javascript",
  ".json": "application/json",
  ".wasm": "application/wasm",
};

// Serves the folders by the prefixes of their paths, isolated, so that clocks are precise.
export async function serve(folders) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const prefix = Object.keys(folders).find((start) => path.startsWith(start));
    const file = prefix === undefined ? "" : join(folders[prefix], path.slice(prefix.length));
    if (file === "" || path.includes("..") || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(path === "/favicon.ico" ? 204 : 404).end();
      return;
    }
    response.writeHead(200, {
      "content-type": kTypes[extname(file)] ?? "application/octet-stream",
      "content-length": statSync(file).size,
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-embedder-policy": "require-corp",
    });
    createReadStream(file, { highWaterMark: 1 << 20 }).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: `http://localhost:${server.address().port}`, close: () => server.close() };
}

const kArguments = [
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const kSoftware = ["--use-webgpu-adapter=swiftshader"];
const kHardware = [
  "--use-angle=vulkan",
  "--enable-features=Vulkan",
  "--disable-vulkan-surface",
  "--disable-gpu-compositing",
];
// With the experiments of WebGPU (matrix units among them), or as browsers come; f16 is no
// experiment elsewhere than with Vulkan on NVIDIA.
const kExperiments = {
  true: ["--enable-unsafe-webgpu"],
  false: ["--ignore-gpu-blocklist"],
};
const kHalves = {
  true: ["--enable-dawn-features=vulkan_enable_f16_on_nvidia,allow_unsafe_apis"],
  false: ["--enable-dawn-features=vulkan_enable_f16_on_nvidia"],
};

function argumentsOf(hardware, experiments) {
  const own = hardware ? [...kHardware, ...kHalves[experiments]] : kSoftware;
  return [...kArguments, ...kExperiments[experiments], ...own];
}

// A browser of its own with one page and one Worker.
export class ChromiumHost {
  #browser;
  #page;

  static async start({ playwright, executable, hardware, experiments, env, origin, kind }) {
    const host = new ChromiumHost();
    const { chromium } = createRequire(import.meta.url)(playwright);
    host.#browser = await chromium.launch({
      executablePath: executable,
      headless: true,
      args: argumentsOf(hardware, experiments),
      ignoreDefaultArgs: hardware ? ["--enable-unsafe-swiftshader", "--disable-gpu"] : [],
      env: { ...process.env, ...env },
    });
    host.#page = await host.#browser.newPage();
    host.#page.on("console", (message) => {
      if (message.type() === "error") console.error(`${kind}: ${message.text()}`);
    });
    await host.#page.goto(`${origin}/page/index.html`);
    await host.call("make", { kind }, 60);
    return host;
  }

  async call(method, options, seconds) {
    const work = this.#page.evaluate((message) => window.callSubject(message), { method, options });
    work.catch(() => undefined); // may come after the limit
    const { result, error } = await within(seconds, method, work);
    if (error !== undefined) throw new Error(error);
    return result;
  }

  async close() {
    await within(10, "closing", this.#browser.close()).catch(() => undefined);
  }
}
