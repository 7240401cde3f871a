// What the owner of a server does with devices and models: devices are evicted while they answer
// and let in again, models are loaded and unloaded, and nobody else may do so.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, serve, stream, swarmOf, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny", "weft-tiny-moe");
const kServer = ["--context", "256", "--sessions", "2", "--threads", "1"];
// Two devices with so much hold weft-tiny together.
const kHalf = "16000000";
const kStory = {
  messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 100, ignore_eos: true,
};

// body({folder, start, help}): servers and workers, which end with the test.
function ownerTest(name, body) {
  test(name, { skip, timeout: 180_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-admin-"));
    const started = [];
    const start = async (packages, args = [], environment = {}) => {
      const server = await serve(packages, [...kServer, ...args], environment);
      started.push(server);
      return server;
    };
    const help = (server, device, memory) => {
      const worker = nativeWorker(server.origin, ["--name", device, "--memory", memory,
        "--threads", "1", "--cache", join(folder, device)]);
      started.push(worker);
      return worker;
    };
    try {
      await body({ folder, start, help });
    } finally {
      for (const each of started.reverse()) await each.stop();
      rmSync(folder, { recursive: true });
    }
  });
}

async function call(server, method, path, body, key = "") {
  const headers = { "Content-Type": "application/json" };
  if (key !== "") headers.Authorization = `Bearer ${key}`;
  const response = await fetch(`${server.origin}${path}`,
    { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  return { status: response.status, json: await response.json() };
}

const devicesOf = async (server) => (await call(server, "GET", "/api/admin/devices")).json;
const modelsOf = async (server) => (await call(server, "GET", "/api/admin/models")).json.models;

async function evict(server, { id, model }) {
  return await call(server, "POST", "/api/admin/devices/evict", { worker: id, model });
}

ownerTest("a device is evicted while it answers: the answer goes on, and it stays out until let in",
  async ({ start, help }) => {
    const server = await start(packageOf("weft-tiny"), ["--no-worker"]);
    const workers = new Map(["heron", "otter", "wren"]
      .map((name) => [name, help(server, name, kHalf)]));
    await eventually(async () => {
      const { state, workers: all } = await swarmOf(server.origin);
      assert.equal(state, "up");
      assert.equal(all.length, 3);
    }, 60_000);
    const expected = (await complete(server.origin, kStory)).choices[0].message.content;
    const gone = await eventually(async () => {
      const { devices } = await devicesOf(server);
      const first = devices.find((device) => device.first_layer === 0);
      assert.ok(first, JSON.stringify(devices));
      return first;
    });
    assert.match(gone.address, /^127\.|^::1/);
    assert.ok(gone.busy_share > 0 && gone.connected_s > 0, JSON.stringify(gone));
    let pieces = 0;
    let answer;
    const { text } = await stream(server.origin, kStory, async () => {
      pieces += 1;
      if (pieces === 8) answer = await evict(server, gone);
    });
    assert.equal(answer.status, 200, JSON.stringify(answer.json));
    assert.equal(text, expected);
    const worker = workers.get(gone.name);
    await worker.waitFor(/The owner of this swarm has evicted this device/);
    // It tries again, and is told so again.
    await eventually(async () => {
      assert.ok(worker.output.match(/has evicted this device/g).length > 1, worker.output);
    });
    const after = await devicesOf(server);
    assert.deepEqual(after.evicted.map(({ name }) => name), [gone.name]);
    assert.ok(after.evicted[0].ends_in_s > 3500);
    assert.ok(!after.devices.some(({ name }) => name === gone.name));
    assert.equal((await complete(server.origin, kStory)).choices[0].message.content, expected);
    const letIn = await call(server, "DELETE", `/api/admin/evicted/${answer.json.number}`);
    assert.equal(letIn.status, 200);
    await eventually(async () => {
      const { devices: now, evicted } = await devicesOf(server);
      assert.ok(now.some(({ name }) => name === gone.name));
      assert.deepEqual(evicted, []);
    }, 45_000);
    const again = await call(server, "DELETE", `/api/admin/evicted/${answer.json.number}`);
    assert.equal(again.status, 404);
    assert.match(again.json.error.message, /let in already, or its hour is over/);
  });

ownerTest("the only device is evicted: the answer waits for the next one, and loses nothing",
  async ({ start, help }) => {
    const server = await start(packageOf("weft-tiny"), ["--no-worker"]);
    help(server, "heron", "200MiB");
    const expected = (await complete(server.origin, kStory)).choices[0].message.content;
    const { devices: [only] } = await devicesOf(server);
    let pieces = 0;
    const { text } = await stream(server.origin, kStory, async () => {
      pieces += 1;
      if (pieces !== 8) return;
      assert.equal((await evict(server, only)).status, 200);
      help(server, "otter", "200MiB");
    });
    assert.equal(text, expected);
  });

ownerTest("what cannot be done is refused with a sentence", async ({ start }) => {
  const server = await start(packageOf("weft-tiny"));
  await complete(server.origin, { ...kStory, max_tokens: 2 });
  const { devices: [own] } = await devicesOf(server);
  assert.equal(own.is_own, true);
  const refused = await evict(server, own);
  assert.equal(refused.status, 409);
  assert.match(refused.json.error.message, /server's own worker, which cannot be evicted/);
  assert.equal((await evict(server, { id: 999, model: "" })).status, 404);
  assert.equal((await evict(server, { id: "1", model: "" })).status, 400);
  const [model] = await modelsOf(server);
  assert.deepEqual([model.name, model.state, model.use.devices], ["weft-tiny", "loaded", 1]);
  assert.ok(model.need_bytes > model.weight_bytes);
  for (const verb of ["load", "unload"]) {
    const one = await call(server, "POST", `/api/admin/models/${verb}`, { model: "weft-tiny" });
    assert.equal(one.status, 409);
    assert.match(one.json.error.message, /serves one model, which stays loaded/);
  }
});

ownerTest("only admins see and do it", async ({ folder, start }) => {
  const keys = join(folder, "keys.db");
  const add = (name, role) => execFileSync(weft,
    ["keys", "add", name, "--role", role, "--file", keys], { encoding: "utf8" }).trim();
  const roles = { user: add("u", "user"), helper: add("h", "helper"), admin: add("a", "admin") };
  const own = "0123456789abcdef0123456789abcdef";
  const server = await start(packageOf("weft-tiny"), ["--keys", keys], { WEFT_API_KEY: own });
  const asks = [
    ["GET", "/api/admin/devices"], ["GET", "/api/admin/models"],
    ["POST", "/api/admin/devices/evict", { worker: 1 }], ["DELETE", "/api/admin/evicted/1"],
    ["POST", "/api/admin/models/load", { model: "x" }],
    ["POST", "/api/admin/models/unload", { model: "x" }],
  ];
  for (const [method, path, body] of asks) {
    assert.equal((await call(server, method, path, body)).status, 401, path);
    assert.equal((await call(server, method, path, body, roles.user)).status, 403, path);
    assert.equal((await call(server, method, path, body, roles.helper)).status, 403, path);
    for (const key of [roles.admin, own]) {
      const { status } = await call(server, method, path, body, key);
      assert.ok(![401, 403].includes(status), `${path} ${status}`);
    }
  }
  // The page itself has no secrets.
  assert.equal((await fetch(`${server.origin}/admin`)).status, 200);
});

ownerTest("models are loaded and unloaded, and an answer that is under way ends first",
  async ({ folder, start }) => {
    const library = join(folder, "packages");
    mkdirSync(library);
    cpSync(packageOf("weft-tiny"), join(library, "one"), { recursive: true });
    cpSync(packageOf("weft-tiny-moe"), join(library, "two"), { recursive: true });
    const server = await start([], ["--keep-alive", "-1"], { WEFT_HOME: folder });
    const stateOf = async (name) => (await modelsOf(server)).find((each) => each.name === name);
    const order = (verb, model) => call(server, "POST", `/api/admin/models/${verb}`, { model });
    assert.equal((await stateOf("one")).state, "on disk");
    assert.equal((await order("unload", "one")).status, 409);
    assert.equal((await order("load", "one")).status, 202);
    await eventually(async () => assert.equal((await stateOf("one")).state, "loaded"));
    assert.equal((await stateOf("two")).state, "on disk");
    const expected = (await complete(server.origin, { ...kStory, model: "one" }))
      .choices[0].message.content;
    let pieces = 0;
    let next = null;
    const { text } = await stream(server.origin, { ...kStory, model: "one" }, async () => {
      pieces += 1;
      if (pieces !== 8) return;
      const { use } = await stateOf("one");
      assert.equal(use.askers.reduce((sum, { requests }) => sum + requests, 0), 1);
      assert.equal((await order("unload", "one")).status, 202);
      // Who comes now waits until it is loaded again.
      next = complete(server.origin, { ...kStory, model: "one" });
    });
    assert.equal(text, expected);
    assert.equal((await next).choices[0].message.content, expected);
    assert.match(server.output, /unloading 'one'[^]*loading 'one'/);
    assert.equal((await order("unload", "one")).status, 202);
    await eventually(async () => assert.equal((await stateOf("one")).state, "on disk"));
    const unknown = await order("load", "oen");
    assert.equal(unknown.status, 404);
    assert.match(unknown.json.error.message, /Did you mean 'one'\?/);
    assert.equal((await order("load", undefined)).status, 400);
  });

ownerTest("models that were named stay, and a device is evicted from all that it helps",
  async ({ folder, start, help }) => {
    const library = join(folder, "packages");
    mkdirSync(library);
    cpSync(packageOf("weft-tiny"), join(library, "one"), { recursive: true });
    cpSync(packageOf("weft-tiny-moe"), join(library, "two"), { recursive: true });
    const named = await start(["one", "two"], [], { WEFT_HOME: folder });
    await eventually(async () => assert.ok((await modelsOf(named)).every(({ stays }) => stays)));
    const refused = await call(named, "POST", "/api/admin/models/unload", { model: "one" });
    assert.equal(refused.status, 409);
    assert.match(refused.json.error.message, /named when the server was started/);
    await named.stop();

    // One device helps both models, and goes from both at once.
    const server = await start([], ["--no-worker", "--keep-alive", "-1"], { WEFT_HOME: folder });
    const worker = help(server, "heron", "600MiB");
    for (const model of ["one", "two"])
      await complete(server.origin, { ...kStory, model, max_tokens: 2 });
    const { devices } = await devicesOf(server);
    assert.deepEqual(devices.map(({ model, name }) => `${model} ${name}`),
      ["one heron", "two heron"]);
    assert.equal((await evict(server, devices[0])).status, 200);
    await eventually(async () => assert.deepEqual((await devicesOf(server)).devices, []));
    assert.equal((await devicesOf(server)).evicted.length, 1);
    await worker.waitFor(/has evicted this device/);
    const [{ number }] = (await devicesOf(server)).evicted;
    await call(server, "DELETE", `/api/admin/evicted/${number}`);
    // Without its memory for a second, a model may have been unloaded: who asks loads it again.
    for (const model of ["one", "two"])
      await complete(server.origin, { ...kStory, model, max_tokens: 2 });
    await eventually(async () => assert.deepEqual(
      (await devicesOf(server)).devices.map((each) => `${each.model} ${each.name}`),
      ["one heron", "two heron"]), 60_000);
  });
