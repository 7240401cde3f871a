// `weft serve` as whoever operates it sees it: settings, probes, the log, metrics, tokens that are
// revoked, and what is said where something is wrong.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync,
} from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import tls from "node:tls";

import { eventually, nativeWorker, packageOf, reasonToSkip, serve, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kKey = "0123456789abcdef0123456789abcdef";
const kToken = "fedcba9876543210fedcba9876543210";
const kBearer = { Authorization: `Bearer ${kKey}` };
const opsTest = (name, run) => test(name, { skip, timeout: 120_000 }, run);

let folder;
let environment;
let server;

function run(args, more = {}) {
  return spawnSync(weft, args, {
    encoding: "utf8", timeout: 30_000, env: { ...process.env, ...environment, ...more },
  });
}

// The lines of the log that are requests.
const requestsOf = (output) => output.split("\n")
  .filter((line) => line.startsWith("{")).map((line) => JSON.parse(line))
  .filter((line) => line.event === "request");

before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "weft-operations-"));
  environment = { XDG_STATE_HOME: folder, INVOCATION_ID: "", JOURNAL_STREAM: "" };
  writeFileSync(join(folder, "key"), `${kKey}\n`);
  writeFileSync(join(folder, "token"), `${kToken}\n`);
  writeFileSync(join(folder, "weft.toml"), [
    `package = ${JSON.stringify(packageOf("weft-tiny"))}`,
    `api-key-file = ${JSON.stringify(join(folder, "key"))}`,
    `join-token-file = ${JSON.stringify(join(folder, "token"))}`,
    "log-format = \"json\"", "no-worker = true", "context = 256", "wait = 1", "",
  ].join("\n"));
  server = await serve(packageOf("weft-tiny"), ["--config", join(folder, "weft.toml")],
    { ...environment, INVOCATION_ID: "0123" });
});

after(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

opsTest("a file of settings is checked, and each fault named with its line", () => {
  const good = run(["config", "check", join(folder, "weft.toml")]);
  assert.equal(good.status, 0, good.stderr);
  assert.match(good.stdout, /is right: 7 settings/);
  const bad = join(folder, "bad.toml");
  writeFileSync(bad, "prot = 1\nshare = 1\nqueue = 200000\n");
  for (const args of [["config", "check", bad], ["serve", "--config", bad]]) {
    const refused = run(args);
    assert.equal(refused.status, 2);
    assert.match(refused.stderr, /bad\.toml:1: there is no setting 'prot'\. Did you mean 'port'\?/);
    assert.match(refused.stderr, /bad\.toml:2: 'share' wants true or false\./);
    assert.match(refused.stderr, /bad\.toml:3: 'queue' is refused: .*100000/);
  }
});

opsTest("no secret is printed where a journal keeps what is", () => {
  assert.doesNotMatch(server.output, new RegExp(`${kKey}|${kToken}`));
  assert.match(server.output, /chat: {2}http/);
  assert.match(server.output, /are not written here/);
});

opsTest("a server without devices lives, is not ready, and is once one has loaded", async () => {
  const ask = async (path) => {
    const response = await fetch(`${server.origin}${path}`);
    return [response.status, await response.text()];
  };
  assert.deepEqual(await ask("/healthz"), [200, "ok\n"]);
  const [status, text] = await ask("/readyz");
  assert.equal(status, 503);
  assert.equal(JSON.parse(text).state, "down");
  assert.equal((await ask("/health"))[0], 503);
  const worker = nativeWorker(server.origin, ["--threads", "1"],
    { ...environment, WEFT_JOIN_TOKEN: kToken });
  const seen = new Set();
  await eventually(async () => {
    const [ready, body] = await ask("/readyz");
    if (ready === 503) seen.add(JSON.parse(body).state);
    assert.equal(ready, 200, body);
  }, 60_000);
  for (const state of seen) assert.ok(["down", "preparing"].includes(state), state);
  assert.deepEqual(await ask("/health"), [200, "{\"status\":\"ok\"}"]);

  // The same server, up: a question, its line and its times.
  const response = await fetch(`${server.origin}/v1/chat/completions?key=hidden`, {
    method: "POST",
    headers: { ...kBearer, "Content-Type": "application/json", "X-Request-Id": "mine-1" },
    body: JSON.stringify({
      model: "weft-tiny", max_tokens: 8, stream: true,
      messages: [{ role: "user", content: "A hidden question" }],
    }),
  });
  assert.equal(response.headers.get("x-request-id"), "mine-1");
  const bytes = (await response.text()).length;
  const line = await eventually(() => {
    const found = requestsOf(server.output).find((each) => each.request_id === "mine-1");
    assert.ok(found);
    return found;
  });
  assert.equal(line.status, 200);
  assert.equal(line.path, "/v1/chat/completions");
  assert.equal(line.bytes, bytes);
  assert.equal(line.model, "weft-tiny");
  assert.ok(line.tokens > 0 && line.tokens <= 8 && line.prompt_tokens > 0, JSON.stringify(line));
  assert.ok(line.first_token_ms > 0 && line.first_token_ms <= line.ms, JSON.stringify(line));
  assert.doesNotMatch(server.output, /hidden/);

  const refused = await fetch(`${server.origin}/metrics`);
  assert.equal(refused.status, 401);
  const text0 = await (await fetch(`${server.origin}/metrics`, { headers: kBearer })).text();
  assert.match(text0, /^# TYPE weft_time_to_first_token_seconds histogram$/m);
  assert.match(text0, /^weft_time_to_first_token_seconds_count 1$/m);
  const between = Number(/^weft_time_between_tokens_seconds_count (\d+)$/m.exec(text0)[1]);
  assert.equal(between, line.tokens - 1);
  assert.match(text0, /^weft_queue_seconds_count 1$/m);
  assert.match(text0, /^weft_step_seconds_bucket\{worker="\d+",le="\+Inf"\} [1-9]/m);
  assert.match(text0, /^weft_up 1$/m);
  await worker.stop();
});

opsTest("a named token joins, and its end closes the connection with a sentence", async () => {
  const made = run(["join-link", "--hours", "1", "--name", "class-7b"]);
  assert.equal(made.status, 0, made.stderr);
  const token = /weft-[0-9a-f]{32}/.exec(made.stdout)[0];
  await eventually(async () => {
    const probe = await fetch(`${server.origin}/probe?bytes=1`,
      { headers: { Authorization: `Bearer ${token}` } });
    assert.equal(probe.status, 200);
  });
  const worker = nativeWorker(server.origin, ["--threads", "1", "--name", "pupil"],
    { ...environment, WEFT_JOIN_TOKEN: token });
  await worker.waitFor(/connected to/);
  // A device is listed without its name until its token was looked at.
  const pupils = async () => {
    const swarm = await (await fetch(`${server.origin}/api/swarm`, { headers: kBearer })).json();
    return swarm.workers.filter(({ name }) => name === "pupil").length;
  };
  await eventually(async () => assert.equal(await pupils(), 1));
  assert.equal(run(["keys", "end", "class-7b"]).status, 0);
  await eventually(async () => assert.equal(await pupils(), 0), 5000);
  await worker.waitFor(/'class-7b' was revoked: ask for a new join link/);
  assert.match(server.output, /worker \d+ closed: The join token 'class-7b' was revoked/);
  await worker.stop();
});

opsTest("https asked of an http port is told to whoever can read it", async () => {
  const { port } = new URL(server.origin);
  const socket = tls.connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await new Promise((resolve) => socket.once("error", resolve));
  await server.waitFor(/asks https of this port, which speaks http/);
  const client = run(["run", `https://127.0.0.1:${port}`, "--prompt", "A fox"]);
  assert.equal(client.status, 1);
  assert.match(client.stderr, /what answers there speaks plain http\. Use http:\/\//);
});

opsTest("a port in use, a damaged file and a slip of a finger are named", async () => {
  const other = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => other.on("listening", resolve));
  const args = ["--port", `${other.address().port}`, "--no-worker"];
  const taken = run(["serve", packageOf("weft-tiny"), ...args], { XDG_STATE_HOME: "/tmp/none" });
  other.close();
  assert.equal(taken.status, 5, taken.stderr);
  assert.match(taken.stderr, new RegExp(`is in use.*--port.*process ${process.pid} \\(`, "s"));

  const slip = run(["srve", "tiny"]);
  assert.equal(slip.status, 2);
  assert.match(slip.stderr, /'weft' has no command 'srve'\. Did you mean 'serve'\?/);

  const damaged = join(folder, "damaged");
  cpSync(packageOf("weft-tiny"), damaged, { recursive: true });
  const manifest = readFileSync(join(damaged, "weft.json"), "utf8");
  writeFileSync(join(damaged, "weft.json"), manifest.slice(0, 100));
  const refused = run(["serve", damaged, "--port", "0"]);
  assert.equal(refused.status, 4, refused.stderr);
  assert.match(refused.stderr, /onvert/);
  writeFileSync(join(damaged, "weft.json"), manifest);
  for (const name of readdirSync(join(damaged, "blobs")))
    truncateSync(join(damaged, "blobs", name), 10);
  const cut = run(["serve", damaged, "--port", "0"]);
  assert.equal(cut.status, 4, cut.stderr);
  assert.match(cut.stderr, /has 10 bytes.*Copy or convert it again/s);
});
