// Headless Firefox (Debian's firefox-esr), driven over Marionette: the protocol that is built into
// it, WebDriver's commands as JSON on a TCP socket. Its WebGPU computes on the software adapter
// that Debian's Chromium brings, as Dawn does in Node.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Driven, kRemoval, kTimeouts } from "./webdriver.mjs";
import { eventually, softwareGpu } from "./weft.mjs";

const kFirefox = process.env.FIREFOX ?? "/usr/bin/firefox-esr";
const kPreferences = {
  "marionette.port": 0, // any that is free
  "dom.webgpu.enabled": true, // Firefox has it switched off on Linux
  "dom.webgpu.workers.enabled": true,
  "gfx.webgpu.ignore-blocklist": true, // software adapters stand in it
};

export function noFirefox() {
  return existsSync(kFirefox) ? false : `there is no ${kFirefox}`;
}

// Each message is its length in decimal, a colon, and [0, id, command, parameters] or
// [1, id, error, result].
class Marionette {
  // `describe()`: how the browser ended, for whoever still waits for it.
  static async connect(port, describe) {
    const made = new Marionette();
    made.describe = describe;
    made.waiting = new Map();
    made.lastId = 0;
    made.received = Buffer.alloc(0);
    made.socket = net.connect(port, "127.0.0.1");
    made.socket.on("data", (bytes) => made.#onData(bytes));
    made.socket.on("error", () => {}); // a close follows
    made.socket.on("close", () => made.#onClose());
    return made;
  }

  #onData(bytes) {
    this.received = Buffer.concat([this.received, bytes]);
    for (;;) {
      const colon = this.received.indexOf(":");
      const end = colon + 1 + Number(this.received.subarray(0, Math.max(colon, 0)).toString());
      if (colon < 0 || this.received.length < end) return;
      const message = JSON.parse(this.received.subarray(colon + 1, end).toString());
      this.received = this.received.subarray(end);
      if (!Array.isArray(message)) continue; // who it is
      const [, id, error, result] = message;
      const { resolve, reject } = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) reject(new Error(`Firefox: ${error.error}: ${error.message}`));
      else resolve(result);
    }
  }

  async #onClose() {
    const error = new Error(`Firefox is gone: ${await this.describe()}`);
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  call(command, parameters = {}) {
    this.lastId += 1;
    const text = Buffer.from(JSON.stringify([0, this.lastId, command, parameters]));
    return new Promise((resolve, reject) => {
      this.waiting.set(this.lastId, { resolve, reject });
      this.socket.write(Buffer.concat([Buffer.from(`${text.length}:`), text]));
    });
  }

  // In the browser's own process, where its console is.
  async privileged(script) {
    await this.call("Marionette:SetContext", { value: "chrome" });
    const { value } = await this.call("WebDriver:ExecuteScript", { script, args: [] });
    await this.call("Marionette:SetContext", { value: "content" });
    return value;
  }
}

// Errors of pages and workers, what their policy refuses among them. Sockets are left out: on a
// busy machine a tab connects again, and says so itself.
const kListen = `
  window.weftErrors = [];
  Services.console.registerListener({ observe(message) {
    if (!(message instanceof Ci.nsIScriptError) || message.flags & message.warningFlag) return;
    if (message.errorMessage.includes(" ws://")) return;
    if (message.sourceName.startsWith("http")) window.weftErrors.push(message.errorMessage);
  } });`;

function commandsOf(marionette) {
  const call = async (command, parameters) =>
    (await marionette.call(`WebDriver:${command}`, parameters)).value;
  return {
    navigate: (url) => call("Navigate", { url }),
    executeAsync: (script, args) => call("ExecuteAsyncScript", { script, args }),
    find: (css) => call("FindElement", { using: "css selector", value: css }),
    click: (id) => call("ElementClick", { id }),
    type: (id, text) => call("ElementSendKeys", { id, text }),
  };
}

export async function launchFirefox() {
  const profile = mkdtempSync(join(tmpdir(), "weft-firefox-"));
  const lines = Object.entries(kPreferences).map(([name, value]) =>
    `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`);
  writeFileSync(join(profile, "user.js"), lines.join("\n"));
  const child = spawn(kFirefox, ["--headless", "--no-remote", "--profile", profile,
    "--marionette", "--remote-allow-system-access"], {
    env: { ...process.env, ...softwareGpu, HOME: profile, MOZ_CRASHREPORTER_DISABLE: "1" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.setEncoding("utf8");
  child.stderr.on("data", (text) => (said = (said + text).slice(-2000)));
  const exited = new Promise((resolve) =>
    child.on("exit", (code, signal) => resolve(`${signal ?? `exit code ${code}`}\n${said}`)));
  const kill = async () => {
    child.kill("SIGKILL");
    await exited;
  };
  const close = async () => {
    await kill();
    rmSync(profile, kRemoval);
  };
  try {
    const port = await eventually(
      () => readFileSync(join(profile, "MarionetteActivePort"), "utf8"), 60_000);
    const marionette = await Marionette.connect(Number(port), () => exited);
    await marionette.call("WebDriver:NewSession",
      { acceptInsecureCerts: true, timeouts: kTimeouts });
    await marionette.privileged(kListen);
    const watched = (webRoot) => webRoot;
    const errors = () => marionette.privileged("return window.weftErrors.splice(0);");
    const of = { errors, watched, kill, close, keepsWeights: true };
    return new Driven("Firefox", commandsOf(marionette), of);
  } catch (error) {
    await close();
    throw error;
  }
}
