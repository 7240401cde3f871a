// WebKitGTK's MiniBrowser, the engine of Safari without Apple's system around it, on a display of
// its own (Xvfb), driven by WebKitWebDriver over HTTP. Its session is a private one: no file system
// of its own, nothing kept. It has no WebGPU on Linux.
import { spawn } from "node:child_process";
import {
  copyFileSync, cpSync, existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync,
} from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { Driven, kRemoval, kTimeouts } from "./webdriver.mjs";
import { eventually, root } from "./weft.mjs";

const kDriver = "/usr/bin/WebKitWebDriver";
const kXvfb = "/usr/bin/Xvfb";
// What Safari has and Debian's build keeps behind switches.
const kFeatures = ["FileSystem", "AccessHandle", "StorageAPI", "StorageAPIEstimate"];

// Beside its libraries, in the folder of this machine's architecture and WebKit's API version.
function miniBrowser() {
  for (const machine of readdirSync("/usr/lib").filter((name) => name.endsWith("-linux-gnu"))) {
    const library = join("/usr/lib", machine);
    for (const name of readdirSync(library).filter((each) => each.startsWith("webkit2gtk-"))) {
      const program = join(library, name, "MiniBrowser");
      if (existsSync(program)) return program;
    }
  }
  return "";
}

export function noWebKit() {
  const missing = [kDriver, kXvfb].find((path) => !existsSync(path));
  if (missing) return `there is no ${missing}`;
  return miniBrowser() === "" ? "there is no MiniBrowser in /usr/lib" : false;
}

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

// Xvfb writes the number of the display that it took to its file 3.
async function startDisplay() {
  const child = spawn(kXvfb, ["-displayfd", "3", "-screen", "0", "1400x1000x24",
    "-nolisten", "tcp"], { stdio: ["ignore", "ignore", "ignore", "pipe"] });
  const number = await new Promise((resolve, reject) => {
    child.stdio[3].once("data", (text) => resolve(String(text).trim()));
    child.once("exit", (code) => reject(new Error(`Xvfb ended with ${code}`)));
  });
  return { name: `:${number}`, close: () => child.kill() };
}

class Driver {
  constructor(origin) {
    this.origin = origin;
  }

  async call(method, path, body) {
    const response = await fetch(this.origin + path, {
      method,
      headers: { "Content-Type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`WebKit: ${value.error}: ${value.message}`);
    return value;
  }

  async startSession() {
    const features = kFeatures.map((name) => `+${name}`).join(",");
    const args = ["--automation", `--features=${features}`];
    const { sessionId } = await this.call("POST", "/session", {
      capabilities: {
        alwaysMatch: {
          browserName: "MiniBrowser",
          acceptInsecureCerts: true,
          timeouts: kTimeouts,
          "webkitgtk:browserOptions": { binary: miniBrowser(), args },
        },
      },
    });
    this.session = `/session/${sessionId}`;
  }

  get commands() {
    const post = (path, body) => this.call("POST", `${this.session}/${path}`, body);
    return {
      navigate: (url) => post("url", { url }),
      executeAsync: (script, args) => post("execute/async", { script, args }),
      find: (css) => post("element", { using: "css selector", value: css }),
      click: (id) => post(`element/${id}/click`, {}),
      type: (id, text) => post(`element/${id}/value`, { text }),
    };
  }
}

function environment(home, display) {
  return {
    ...process.env,
    DISPLAY: display,
    HOME: home,
    XDG_DATA_HOME: join(home, "data"),
    XDG_CACHE_HOME: join(home, "cache"),
    XDG_CONFIG_HOME: join(home, "config"),
    GDK_BACKEND: "x11",
    LIBGL_ALWAYS_SOFTWARE: "1",
    JSC_useSharedArrayBuffer: "1", // as Safari on isolated pages
    WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: "1", // it cannot be built in most containers
  };
}

// A copy of these files whose page loads catch_errors.js first.
function watched(webRoot) {
  const copy = join(root, "build/e2e/watched", basename(webRoot));
  rmSync(copy, kRemoval);
  cpSync(webRoot, copy, { recursive: true, filter: (path) => !/\.(br|gz)$/.test(path) });
  copyFileSync(join(root, "tests/e2e/lib/catch_errors.js"), join(copy, "catch_errors.js"));
  const page = join(copy, "index.html");
  const text = readFileSync(page, "utf8");
  writeFileSync(page, text.replace("<script", '<script src="/catch_errors.js"></script>$&'));
  return copy;
}

const takeErrors = () => {
  const kKey = "weft tests: errors";
  const kept = sessionStorage[kKey] ?? "[]";
  delete sessionStorage[kKey];
  return JSON.parse(kept);
};

export async function launchWebKit() {
  const home = mkdtempSync(join(tmpdir(), "weft-webkit-"));
  const display = await startDisplay();
  const port = await freePort();
  // A process group, because the driver's end is not the browser's.
  const child = spawn(kDriver, [`--port=${port}`], {
    env: environment(home, display.name),
    stdio: "ignore",
    detached: true,
  });
  const exited = new Promise((resolve) => child.on("exit", resolve));
  const kill = async () => {
    if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid, "SIGKILL");
    await exited;
  };
  const close = async () => {
    await kill();
    display.close();
    rmSync(home, kRemoval);
  };
  try {
    const driver = new Driver(`http://127.0.0.1:${port}`);
    await eventually(() => driver.call("GET", "/status"));
    await driver.startSession();
    const errors = () => made.evaluate(takeErrors);
    const of = { errors, watched, kill, close, keepsWeights: false };
    const made = new Driven("WebKit", driver.commands, of);
    return made;
  } catch (error) {
    await close();
    throw error;
  }
}
