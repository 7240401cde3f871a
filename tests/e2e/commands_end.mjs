// How every command of weft ends: when it is used wrongly, when it is refused, when it has done its
// work and at Ctrl-C. Freed memory is overwritten, so that whoever looks at it once more fails
// here; `./dev test --deep` runs the same with the address sanitizer's build.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import tls from "node:tls";

import { eventually, modelFolder, packageOf, reasonToSkip, serve, swarmOf, weft }
  from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const home = mkdtempSync(join(tmpdir(), "weft-ends-"));
const kEnvironment = {
  MALLOC_PERTURB_: "165",
  ASAN_OPTIONS: "exitcode=99",
  UBSAN_OPTIONS: "halt_on_error=1:exitcode=99",
  HOME: home,
  XDG_STATE_HOME: join(home, "state"),
  XDG_CACHE_HOME: join(home, "cache"),
  XDG_DATA_HOME: join(home, "data"),
  HF_ENDPOINT: "http://127.0.0.1:9", // "discard": nobody listens there
  WEFT_JOIN_TOKEN: "",
};
const kPatienceMs = 60_000;

// A run of weft: its output grows, `ended` is its exit status or the signal that ended it.
function run(args, input = "") {
  const child = spawn(weft, args, { env: { ...process.env, ...kEnvironment } });
  const result = { child, output: "" };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text) => (result.output += text));
  }
  child.stdin.on("error", () => {});
  if (input !== null) child.stdin.end(input);
  const timer = setTimeout(() => child.kill("SIGABRT"), kPatienceMs);
  result.ended = new Promise((resolve) => {
    child.on("close", (status, signal) => {
      clearTimeout(timer);
      resolve(signal ?? status);
    });
  });
  return result;
}

async function says(result, pattern) {
  await eventually(() => assert.match(result.output, pattern), kPatienceMs);
}

// Runs to its end with `status` (a signal's name where it has no handler of its own), having said
// what `pattern` is.
async function endsWith(args, status, pattern, input) {
  const result = run(args, input);
  assert.equal(await result.ended, status, result.output);
  assert.match(result.output, pattern);
  assert.doesNotMatch(result.output, /Sanitizer|runtime error:/);
}

// Sends `signal` once what `pattern` is was said.
async function stoppedWith(args, signal, pattern, status, { input = null, before: prepare } = {}) {
  const result = run(args, input);
  await says(result, pattern);
  await prepare?.(result);
  result.child.kill(signal);
  if (input === null && status === 0) setTimeout(() => result.child.stdin.end(), 500);
  assert.equal(await result.ended, status, result.output);
  assert.doesNotMatch(result.output, /Sanitizer|runtime error:/);
}

let plain = null; // a server, and the same with a certificate that nobody trusts
let secured = null;
let fingerprint = "";
const servers = [];

before(async () => {
  if (skip) return;
  const start = async (args) => {
    const server = await serve(packageOf("weft-tiny"), args, kEnvironment);
    servers.push(server);
    return server;
  };
  plain = await start(["--context", "256", "--threads", "1"]);
  secured = await start(["--context", "256", "--no-worker", "--tls", "auto"]);
  fingerprint = await fingerprintOf(secured);
});

after(async () => {
  for (const server of servers) await server.stop();
  rmSync(home, { recursive: true, force: true });
});

function fingerprintOf(server) {
  const { port } = new URL(server.origin);
  return new Promise((resolve, reject) => {
    const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().fingerprint256.replaceAll(":", "").toLowerCase());
      socket.destroy();
    });
    socket.on("error", reject);
  });
}

function endTest(name, body) {
  test(name, { skip, timeout: 300_000 }, body);
}

const socketOf = (server) => server.origin.replace(/^http/, "ws");
const worker = (server, ...args) =>
  ["worker", "--threads", "1", "--memory", "128MiB", "--cache", join(home, "cache"),
    socketOf(server), ...args];

// What a command is given so that it does its work, quickly.
const kWork = {
  list: () => [["list"], /^/],
  tokenize: () => [["tokenize", modelFolder("weft-tiny")], /\[\d+/, '"a fox"\n'],
  render: () => [["render", modelFolder("weft-tiny")], /fox/,
    JSON.stringify({ messages: [{ role: "user", content: "a fox" }] })],
  grammar: () => [["grammar"], /"accepted":\[true\]/, '{"regex": "a+", "check": ["aa"]}\n'],
  plan: () => {
    const devices = join(home, "devices.json");
    writeFileSync(devices, JSON.stringify({ workers: [{ name: "a", memory: "1GiB" }] }));
    return [["plan", packageOf("weft-tiny"), "--workers", devices], /a/];
  },
  convert: () => [["convert", modelFolder("weft-tiny"), join(home, "converted")], /^/],
  generate: () => [
    ["generate", packageOf("weft-tiny"), "--prompt", "A fox", "--max-tokens", "4"], /^/],
  run: () => [["run", plain.origin, "--prompt", "A fox", "--max-tokens", "4"], /\S/],
  sim: () => [["sim", "--seed", "1001", "--seeds", "2"], /^/],
};

// Where nothing is there, or nobody answers.
const kNothing = "/nowhere/at/all";
const kRefused = {
  serve: [kNothing], config: ["check", kNothing], worker: ["ws://127.0.0.1"],
  run: ["http://127.0.0.1:9"],
  pull: ["nobody/nothing"], show: ["nothing"], rm: ["nothing"],
  convert: [kNothing, join(home, "out")],
  groups: [kNothing, join(home, "out"), "--text", kNothing],
  profile: [kNothing, "--text", kNothing],
  plan: [kNothing, "--workers", kNothing], generate: [kNothing, "--prompt", "a"],
  eval: [kNothing, "--reference", kNothing], tokenize: [kNothing], render: [kNothing],
  grammar: ["--tokenizer", kNothing], keys: ["end", "nobody"], "join-link": ["--hours", "0"],
  state: ["import", kNothing], cluster: ["status", "--cluster", "postgres://weft@127.0.0.1:9/weft"],
  "onnx-split": [kNothing, join(home, "out")],
};

function commands() {
  const help = execFileSync(weft, ["--help"], { encoding: "utf8" });
  const listed = help.slice(help.indexOf("Subcommands:"));
  return [...listed.matchAll(/^ {2}([a-z][a-z-]*)/gm)].map((match) => match[1]);
}

endTest("every command says how it is used, and refuses options that are unknown", async () => {
  const names = commands();
  assert.ok(names.includes("serve") && names.includes("onnx-split"), names.join());
  for (const name of names) {
    await endsWith([name, "--help"], 0, /--help/);
    await endsWith([name, "--no-such-option"], 2, /no-such-option|required/);
  }
});

endTest("every command either refuses what is not there or cannot be refused", async () => {
  for (const name of commands()) {
    if (name in kRefused) {
      // Used wrongly, not there, damaged, in the way.
      const result = run([name, ...kRefused[name]]);
      const status = await (name === "worker" ? stopSoon(result) : result.ended);
      assert.ok([1, 2, 3, 4, 5].includes(status) || (name === "worker" && status === 0),
        `${name}: ${status} ${result.output}`);
      assert.match(result.output, /\S/);
    } else {
      assert.ok(name in kWork, `${name} is new: say how it is refused, or what its work is`);
    }
  }
});

// A worker waits for its server for ever.
async function stopSoon(result) {
  await says(result, /trying again/);
  result.child.kill("SIGINT");
  return await result.ended;
}

for (const [name, make] of Object.entries(kWork)) {
  endTest(`${name} ends when its work is done`, async () => {
    const [args, pattern, input] = make();
    await endsWith(args, 0, pattern, input);
  });
}

endTest("a server that cannot start says why", async () => {
  const { port } = new URL(plain.origin);
  const folder = packageOf("weft-tiny");
  await endsWith(["serve", folder, "--port", port], 5, /is in use.* It is process \d+ \(weft/s);
  await endsWith(["serve", folder, "--port", "0", "--lossy"], 2, /--plan tensor/);
  await endsWith(["serve", folder, "--port", "0", "--tls", kNothing], 2, /nowhere/);
  await endsWith(["serve", folder, "--port", "0", "--address", "here"], 2, /no.* IP address/);
});

endTest("a worker that is refused ends", async () => {
  await endsWith(["worker"], 2, /Where is the swarm/);
  await endsWith(["worker", "ftp://127.0.0.1"], 2, /ftp/);
  await endsWith(worker(secured), 1, /TLS handshake .* failed/);
  await endsWith(worker(secured, "--fingerprint", "0".repeat(64)), 1, /TLS handshake .* failed/);
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  endTest(`${signal} ends a worker, wherever it is`, async () => {
    const joined = (server, name) => async () => {
      process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";
      await eventually(async () => {
        const { workers } = await swarmOf(server.origin);
        assert.ok(workers.some((each) => each.name === name), JSON.stringify(workers));
      }, kPatienceMs);
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    };
    await stoppedWith(worker(plain, "--name", "plain"), signal, /connected to/, 0,
      { before: joined(plain, "plain") });
    await stoppedWith(worker(secured, "--name", "trusting", "--fingerprint", fingerprint), signal,
      /connected to/, 0, { before: joined(secured, "trusting") });
    await stoppedWith(worker(secured, "--insecure"), signal, /connected to/, 0);
    const nobody = { origin: "http://127.0.0.1:9" };
    await stoppedWith(worker(nobody), signal, /trying again/, 0);
    // One that takes connections and says nothing.
    const silent = net.createServer((socket) => socket.on("error", () => {}));
    silent.listen(0, "127.0.0.1");
    await new Promise((resolve) => silent.on("listening", resolve));
    const origin = `http://127.0.0.1:${silent.address().port}`;
    await stoppedWith(worker({ origin }), signal, /connecting to/, 0);
    silent.close();
  });

  endTest(`${signal} ends a server, whatever it is doing`, async () => {
    const args = ["serve", packageOf("weft-tiny"), "--port", "0", "--context", "256", "--threads",
      "1"];
    const ready = /API: /;
    await stoppedWith(args, signal, ready, 0);
    await stoppedWith([...args, "--no-worker"], signal, ready, 0);
    const busy = { before: async (server) => {
      await says(server, /computes|ready|up/i);
      const origin = server.output.match(/chat:\s+(http:[^\s]+?)\/\s/)[1];
      const ask = { stream: true, max_tokens: 200, prompt: "A fox" };
      const response = await fetch(`${origin}/v1/completions`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(ask),
      });
      await fetch(`${origin}/api/swarm/events`);
      const helper = run(worker({ origin }));
      await says(helper, /connected to/);
      server.child.once("exit", () => helper.child.kill("SIGINT"));
      await response.body.getReader().read();
    } };
    await stoppedWith(args, signal, ready, 0, busy);
  });
}

endTest("Ctrl-C ends an answer in the terminal, and commands that compute", async () => {
  const chat = run(["run", plain.origin], null);
  chat.child.stdin.write("Tell me a long story about a fox and a lantern.\n");
  await says(chat, /Chatting with[^]*\n[^]*\w/);
  chat.child.kill("SIGINT");
  setTimeout(() => chat.child.stdin.end(), 500);
  assert.equal(await chat.ended, 0, chat.output);
  await stoppedWith(["sim", "--seed", "1", "--seeds", "1000000"], "SIGINT", /^/, "SIGINT");
  await stoppedWith(["generate", packageOf("weft-tiny"), "--prompt", "A fox", "--max-tokens",
    "500"], "SIGINT", /^/, "SIGINT");
});
