// A client that lost its server goes on at another one: with the same key of its request and the
// id of the last event that it had. What it has then is what one server would have given.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freePort, noPostgres, postgres } from "./lib/postgres.mjs";
import {
  endAll, eventually, nativeWorker, packageOf, reasonToSkip, serve, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noPostgres();
const kPatienceMs = 30_000;
const folder = mkdtempSync(join(tmpdir(), "weft-last-event-"));
const keyFile = join(folder, "cluster.key");
let database, a, b;

// Each connects to both, so that it finds whoever is left.
async function startServer(name, port) {
  const server = await serve(packageOf("weft-tiny"),
    ["--port", String(port), "--url", `http://127.0.0.1:${port}`, "--cluster", database.url,
      "--cluster-key", keyFile, "--context", "512", "--sessions", "2", "--no-worker"],
    { XDG_STATE_HOME: join(folder, name) });
  return Object.assign(server, { port });
}

const isReady = async ({ origin }) =>
  await eventually(async () =>
    assert.equal((await fetch(`${origin}/readyz`)).status, 200), kPatienceMs);

async function ask({ origin }, headers, more = {}) {
  return await fetch(`${origin}/v1/chat/completions`, {
    method: "POST", headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify({ model: "weft-tiny", max_tokens: 60, ignore_eos: true, temperature: 1,
      stream: true, ...more,
      messages: [{ role: "user", content: "Tell me a story about a fox." }] }),
  });
}

// [{id, text}] until `isEnough`, the end or a cut.
async function eventsOf(response, isEnough = () => false) {
  assert.equal(response.status, 200);
  const events = [];
  let rest = "";
  try {
    for await (const bytes of response.body) {
      rest += Buffer.from(bytes).toString();
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        const data = rest.slice(0, end).match(/^(?:id: (\d+)\n)?data: (\{.*)$/);
        if (!data) continue;
        const { choices } = JSON.parse(data[2]);
        events.push({ id: Number(data[1]), text: choices?.[0]?.delta?.content ?? "" });
        if (isEnough(events)) return events;
      }
    }
  } catch (error) {
    assert.match(`${error}`, /terminated|abort|reset/i);
  }
  return events;
}

const textOf = (events) => events.map(({ text }) => text).join("");
const idsOf = (events) => events.map(({ id }) => id);
const upTo = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => from + index);

before(async () => {
  if (skip) return;
  database = await postgres();
  const { status, stderr } = spawnSync(weft,
    ["cluster", "init", database.url, "--cluster-key", keyFile], { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  a = await startServer("a", await freePort());
  nativeWorker(a.origin, [], { XDG_STATE_HOME: join(folder, "worker") });
  await isReady(a);
  b = await startServer("b", await freePort());
  await isReady(b);
});

after(async () => {
  await endAll();
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("events of a request with a key have ids, and others none", { skip }, async () => {
  const events = await eventsOf(await ask(a, { "Idempotency-Key": "ids" }));
  assert.deepEqual(idsOf(events), upTo(1, events.length));
  const without = await eventsOf(await ask(a, {}));
  assert.ok(idsOf(without).every(Number.isNaN));
  const several = await eventsOf(await ask(a, { "Idempotency-Key": "several" }, { n: 2 }));
  assert.ok(idsOf(several).every(Number.isNaN));
});

test("what follows an event is asked for at any server", { skip }, async () => {
  const key = { "Idempotency-Key": "any" };
  const whole = await eventsOf(await ask(a, key));
  for (const server of [a, b]) {
    const rest = await eventsOf(await ask(server, { ...key, "Last-Event-ID": "20" }));
    assert.deepEqual(idsOf(rest), upTo(21, whole.length));
    assert.equal(textOf(whole.slice(0, 20)) + textOf(rest), textOf(whole));
  }
});

test("an id without a key, or that is none, is refused", { skip }, async () => {
  for (const headers of [{ "Last-Event-ID": "3" },
    { "Last-Event-ID": "x", "Idempotency-Key": "wrong" }]) {
    const response = await ask(a, headers);
    const { error } = await response.json();
    assert.equal(response.status, 400);
    assert.equal(error.param, "Last-Event-ID");
  }
});

test("a stream of a server that is killed goes on at the other", { skip }, async () => {
  const key = { "Idempotency-Key": "killed" };
  const first = await eventsOf(await ask(a, key), (events) => {
    if (events.length === 10) a.child.kill("SIGKILL");
    return false;
  });
  assert.ok(first.length >= 10 && first.length < 60, `${first.length} events came`);
  const rest = await eventsOf(
    await ask(b, { ...key, "Last-Event-ID": String(first.at(-1).id) }));
  const whole = await eventsOf(await ask(b, key));
  assert.deepEqual(idsOf([...first, ...rest]), upTo(1, whole.length));
  assert.equal(textOf(first) + textOf(rest), textOf(whole));
});

test("weft run goes on at the other server by itself", { skip }, async () => {
  a = await startServer("a", a.port);
  await isReady(a);
  const gateway = a;
  const child = spawn(weft, ["run", a.origin, "--temperature", "0", "--max-tokens", "200",
    "--prompt", "Tell me a story about a fox."]);
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8");
    child[name].on("data", (text) => {
      said[name] += text;
      if (name === "stdout" && gateway.child.exitCode === null) gateway.child.kill("SIGKILL");
    });
  }
  const status = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(status, 0, said.stderr);
  const { choices } = await (await ask(b, {}, { stream: false, temperature: 0, max_tokens: 200,
    ignore_eos: false })).json();
  assert.equal(said.stdout.trim(), choices[0].message.content.trim());
});
