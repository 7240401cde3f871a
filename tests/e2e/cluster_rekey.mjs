// The cluster's key is exchanged for another one while its servers run, with a role of the database
// that may only read and write rows.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync }
  from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freePort, noPostgres, postgres } from "./lib/postgres.mjs";
import {
  complete, endAll, eventually, nativeWorker, packageOf, reasonToSkip, serve, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noPostgres();
const kPatienceMs = 30_000;
const folder = mkdtempSync(join(tmpdir(), "weft-rekey-"));
const keyOf = (name) => join(folder, `${name}.key`);
const places = {};
let database, runner;

function cluster(...args) {
  const env = { ...process.env, XDG_STATE_HOME: folder, HOME: folder, WEFT_CLUSTER: database.url };
  const { status, stdout, stderr } = spawnSync(weft, ["cluster", ...args],
    { encoding: "utf8", env });
  return { status, output: stdout + stderr };
}

const rekey = () => cluster("rekey", "--cluster-key", keyOf("a"));
const linesOf = (name) => readFileSync(keyOf(name), "utf8").trim().split("\n");

async function startServer(name) {
  places[name] ??= { port: await freePort() };
  mkdirSync(join(folder, name), { recursive: true });
  const url = `http://127.0.0.1:${places[name].port}`;
  places[name].server = await serve(packageOf("weft-tiny"),
    ["--port", String(places[name].port), "--url", url, "--cluster", runner,
      "--cluster-key", keyOf(name), "--context", "512", "--sessions", "2", "--no-worker"],
    { XDG_STATE_HOME: join(folder, name) });
  return places[name].server;
}

// Each has a link to the other.
async function linked() {
  await eventually(async () => {
    for (const { server } of Object.values(places)) {
      const { servers } = await (await fetch(`${server.origin}/api/cluster`)).json();
      assert.ok(servers.every((each) => each.is_linked), JSON.stringify(servers));
    }
  }, kPatienceMs);
}

async function answer() {
  const { origin } = places.b.server;
  const { choices } = await complete(origin, { model: "weft-tiny", max_tokens: 8, ignore_eos: true,
    temperature: 0, messages: [{ role: "user", content: "Where does Mira live?" }] });
  return choices[0].message.content;
}

before(async () => {
  if (skip) return;
  database = await postgres();
  database.query("create role weft_run login");
  runner = database.url.replace("weft@", "weft_run@");
  const made = cluster("init", database.url, "--cluster-key", keyOf("a"), "--role", "weft_run");
  assert.equal(made.status, 0, made.output);
  assert.match(made.output, /'weft_run' may read and write rows, and no more/);
  copyFileSync(keyOf("a"), keyOf("b"));
  for (const name of ["a", "b"]) await startServer(name);
  nativeWorker(places.a.server.origin, []);
  await eventually(async () =>
    assert.equal((await fetch(`${places.b.server.origin}/readyz`)).status, 200), kPatienceMs);
});

after(async () => {
  await endAll();
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a role that runs servers cannot make or change tables", { skip }, () => {
  const env = { ...process.env, XDG_STATE_HOME: folder, HOME: folder };
  const { status, stderr } = spawnSync(weft,
    ["cluster", "init", runner.replace("/postgres", "/template1"), "--cluster-key", keyOf("a")],
    { encoding: "utf8", env });
  assert.notEqual(status, 0);
  assert.match(stderr, /permission denied/);
});

test("a role that there is not is told how it is made", { skip }, () => {
  const { status, output } =
    cluster("init", database.url, "--cluster-key", keyOf("a"), "--role", "nobody");
  assert.notEqual(status, 0);
  assert.match(output, /no role 'nobody'.*createuser -P nobody/);
});

test("the key is exchanged while servers run", { skip }, async () => {
  await linked();
  const text = await answer();
  const begun = rekey();
  assert.equal(begun.status, 0, begun.output);
  assert.match(begun.output, /Two keys are valid now/);
  const [old, next] = linesOf("a");
  assert.notEqual(old, next);
  assert.equal(statSync(keyOf("a")).mode & 0o777, 0o600);
  const early = rekey();
  assert.notEqual(early.status, 0, "b has not got it");
  assert.match(early.output, /not at all servers yet/);
  assert.match(cluster("status").output, /being exchanged; still without the new one: /);
  assert.equal(await answer(), text);

  copyFileSync(keyOf("a"), keyOf("b"));
  await eventually(() => assert.match(cluster("status").output, /all servers have the new one/),
    kPatienceMs);
  const ended = rekey();
  assert.equal(ended.status, 0, ended.output);
  assert.deepEqual(linesOf("a"), [next, old]);
  assert.doesNotMatch(cluster("status").output, /exchanged/);
  assert.equal(await answer(), text, "it goes on");

  // One after the other, with the file of before that has both, and with the new key alone.
  await places.b.server.stop();
  await startServer("b");
  await linked();
  writeFileSync(keyOf("a"), `${next}\n`, { mode: 0o600 });
  await places.a.server.stop();
  await startServer("a");
  await linked();
  await eventually(async () => assert.equal(await answer(), text), kPatienceMs);
});

test("the old key alone lets no server in any more", { skip }, async () => {
  const [old] = linesOf("b");
  const file = keyOf("late");
  writeFileSync(file, `${old}\n`, { mode: 0o600 });
  const { status, stderr } = spawnSync(weft,
    ["serve", packageOf("weft-tiny"), "--port", String(await freePort()), "--url",
      "http://127.0.0.1:9", "--cluster", runner, "--cluster-key", file, "--no-worker"],
    { encoding: "utf8", timeout: 20_000, env: { ...process.env, XDG_STATE_HOME: folder } });
  assert.notEqual(status, 0);
  assert.match(stderr, /belongs to a cluster with another key/);
});
