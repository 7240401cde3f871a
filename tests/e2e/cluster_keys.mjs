// Keys of a cluster: what one server makes or ends holds at all, limits and usage are of all
// servers together, and go on while the database is away.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freePort, noPostgres, postgres } from "./lib/postgres.mjs";
import {
  endAll, eventually, nativeWorker, packageOf, reasonToSkip, serve, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noPostgres();
const kOwn = "0123456789abcdef0123456789abcdef";
const kPatienceMs = 30_000;
const folder = mkdtempSync(join(tmpdir(), "weft-cluster-keys-"));
const keyFile = join(folder, "cluster.key");
let database, a, b;

// A command, with the cluster in its environment as on a server.
function run(args, more = {}) {
  const env = { ...process.env, XDG_STATE_HOME: folder, HOME: folder, WEFT_API_KEY: "",
    WEFT_CLUSTER: database.url, ...more };
  return spawnSync(weft, args, { encoding: "utf8", env });
}

function must(args, more) {
  const { status, stdout, stderr } = run(args, more);
  assert.equal(status, 0, stderr);
  return stdout.trim();
}

const add = (...args) => must(["keys", "add", ...args]);

async function startServer(name) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  return await serve(packageOf("weft-tiny"),
    ["--port", String(port), "--url", url, "--cluster", database.url, "--cluster-key", keyFile,
      "--context", "512", "--sessions", "2", "--no-worker"],
    { XDG_STATE_HOME: join(folder, name), WEFT_API_KEY: kOwn, WEFT_JOIN_TOKEN: kOwn });
}

async function ask({ origin }, key, more = {}) {
  return await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: "weft-tiny", max_tokens: 4, ignore_eos: true,
      messages: [{ role: "user", content: "Where does Mira live?" }], ...more }),
  });
}

async function statusOf(server, key) {
  const response = await ask(server, key);
  await response.text();
  return response.status;
}

// Lists ask for nothing that counts.
async function lets(server, key) {
  const headers = { Authorization: `Bearer ${key}` };
  return (await fetch(`${server.origin}/v1/models`, { headers })).status;
}

const everywhere = async (key, status) =>
  await eventually(async () => {
    for (const server of [a, b]) assert.equal(await lets(server, key), status);
  }, 10_000);

const todayOf = (name) =>
  JSON.parse(must(["keys", "list", "--json"])).find((key) => key.name === name).today;

before(async () => {
  if (skip) return;
  database = await postgres();
  must(["cluster", "init", database.url, "--cluster-key", keyFile]);
  [a, b] = [await startServer("a"), await startServer("b")];
  nativeWorker(a.origin, [],
    { WEFT_JOIN_TOKEN: kOwn, XDG_STATE_HOME: join(folder, "first") });
  await eventually(async () => {
    for (const server of [a, b])
      assert.equal((await fetch(`${server.origin}/readyz`)).status, 200);
  }, kPatienceMs);
});

after(async () => {
  await endAll();
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("a key of the command works at all servers, and ends at all", { skip }, async () => {
  const key = add("maths");
  await everywhere(key, 200);
  must(["keys", "end", "maths"]);
  await everywhere(key, 401);
});

test("a key that one server makes works at the other, and ends there", { skip }, async () => {
  const admin = { Authorization: `Bearer ${kOwn}`, "Content-Type": "application/json" };
  const made = await fetch(`${a.origin}/api/keys`,
    { method: "POST", headers: admin, body: JSON.stringify({ name: "art" }) });
  assert.equal(made.status, 201);
  const { key } = await made.json();
  assert.equal(await lets(a, key), 200, "at once where it was made");
  await everywhere(key, 200);
  const { data } = await (await fetch(`${b.origin}/api/keys`, { headers: admin })).json();
  assert.ok(data.some(({ name }) => name === "art"));
  const ended = await fetch(`${b.origin}/api/keys/art`, { method: "DELETE", headers: admin });
  assert.equal(ended.status, 200);
  await everywhere(key, 401);
});

test("usage of a key adds up over servers, each token once", { skip }, async () => {
  const key = add("both");
  await everywhere(key, 200);
  let prompt = 0;
  for (const server of [a, b, b]) {
    const response = await ask(server, key);
    assert.equal(response.status, 200);
    prompt += (await response.json()).usage.prompt_tokens;
  }
  await eventually(() => {
    const today = todayOf("both");
    assert.equal(today.requests, 3);
    assert.equal(today.completion_tokens, 12);
    assert.equal(today.prompt_tokens, prompt);
  }, 20_000);
});

test("a minute's requests are counted over servers", { skip }, async () => {
  const key = add("three", "--per-minute", "3");
  await everywhere(key, 200);
  for (const server of [a, a, b]) assert.equal(await statusOf(server, key), 200);
  // Each hears of the others' within a second.
  await eventually(async () => {
    for (const server of [a, b]) {
      const response = await ask(server, key);
      await response.text();
      assert.equal(response.status, 429);
      assert.equal(response.headers.get("x-ratelimit-remaining-requests"), "0");
    }
  }, 10_000);
});

test("a join token lets a device in at any server until it ends", { skip }, async () => {
  const token = must(["join-link", "--name", "class-7b", "--hours", "1"]);
  const admin = { headers: { Authorization: `Bearer ${kOwn}` } };
  const workers = async () => {
    for (const server of [a, b]) {
      const swarm = await (await fetch(`${server.origin}/api/swarm`, admin)).json();
      if (swarm.workers.length > 0) return swarm.workers.length;
    }
    return 0;
  };
  // A device whose token its server does not know yet is refused, and ends.
  await eventually(async () => {
    for (const server of [a, b]) {
      const headers = { Authorization: `Bearer ${token}` };
      assert.equal((await fetch(`${server.origin}/probe?bytes=1`, { headers })).status, 200);
    }
  }, kPatienceMs);
  const device = nativeWorker(b.origin, [],
    { WEFT_JOIN_TOKEN: token, XDG_STATE_HOME: join(folder, "second") });
  try {
    await eventually(async () => assert.equal(await workers(), 2), kPatienceMs);
    must(["keys", "end", "class-7b"]);
    await eventually(async () => assert.equal(await workers(), 1), 10_000);
  } finally {
    device.child.kill();
  }
});

test("keys of a file are taken into the cluster, and come out of it again", { skip }, async () => {
  const file = join(folder, "alone.db"), moved = join(folder, "moved.jsonl");
  const alone = { WEFT_CLUSTER: "" };
  const key = must(["keys", "add", "old", "--per-minute", "9", "--file", file], alone);
  must(["state", "export", moved, "--keys", file, "--journal", join(folder, "none.db")], alone);
  const taken = () => run(["state", "import", moved, "--cluster", database.url]).stderr;
  assert.match(taken(), /has 1 more key, with/);
  assert.match(taken(), /has 0 more keys, .*; 1 of the file it had already/);
  await everywhere(key, 200);
  must(["state", "export", moved, "--cluster", database.url]);
  assert.ok(!readFileSync(moved, "utf8").includes(key), "hashes alone");
  const back = join(folder, "back.db");
  must(["state", "import", moved, "--keys", back, "--journal", join(folder, "back-records.db")],
    alone);
  const listed = JSON.parse(must(["keys", "list", "--json", "--file", back], alone));
  assert.equal(listed.find(({ name }) => name === "old").per_minute, 9);
  assert.equal(listed.find(({ name }) => name === "both").today.requests, 3);
});

test("without the database keys go on, with a share of their limits each", { skip }, async () => {
  const key = add("four", "--per-minute", "4");
  await everywhere(key, 200);
  database.pause();
  try {
    // A share of two, as soon as the other server has not been heard for some seconds.
    await eventually(async () => {
      const response = await ask(a, key);
      await response.text();
      assert.equal(response.headers.get("x-ratelimit-limit-requests"), "2");
    }, kPatienceMs);
    assert.equal(await lets(b, key), 200);
  } finally {
    database.goOn();
  }
  await eventually(async () => {
    const response = await ask(a, key);
    await response.text();
    assert.equal(response.headers.get("x-ratelimit-limit-requests"), "4");
  }, kPatienceMs);
  const late = add("late");
  await everywhere(late, 200);
});
