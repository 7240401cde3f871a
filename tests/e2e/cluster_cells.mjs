// Two models at each server of a cluster: each model is a cell with a lease of its own. A server
// may lead one and stand by for the other, and native workers help both.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { TestCluster, clusterOf } from "./lib/cluster.mjs";
import { freePort, noPostgres } from "./lib/postgres.mjs";
import {
  complete, eventually, nativeWorker, packageOf, reasonToSkip, stream, weft,
} from "./lib/weft.mjs";

const kModels = ["weft-tiny", "weft-tiny-moe"];
const [kTiny, kMoe] = kModels;
const skip = reasonToSkip(...kModels) || noPostgres();
const options = { skip, timeout: 180_000 };
const kPatienceMs = 60_000;
const kWorkers = 3;
const expected = {}; // by model: the text of questionOf
let cluster, a, b;

const questionOf = (model) => ({ model, max_tokens: 60, ignore_eos: true, temperature: 0,
  messages: [{ role: "user", content: "Tell me a story about a fox." }] });

function command(...args) {
  return spawnSync(weft, ["cluster", ...args, "--cluster", cluster.database.url],
    { encoding: "utf8", env: { ...process.env, XDG_STATE_HOME: cluster.folder } });
}

const explained = (action) => cluster.explained(action);

async function startServer(name, models, port) {
  const server = await cluster.startServer(name, port ?? await freePort(), models);
  cluster.servers.push(server);
  return server;
}

async function cellOf(server, model) {
  return (await clusterOf(server)).cells.find((cell) => cell.model === model);
}

const swarmOf = async ({ origin }, model) =>
  await (await fetch(`${origin}/api/swarm?model=${model}`)).json();

const textOf = async (server, model) =>
  (await complete(server.origin, questionOf(model))).choices[0].message.content;

// The server leads the model with all workers.
async function leads(server, model) {
  await eventually(async () => {
    assert.equal((await cellOf(server, model))?.leads, true);
    const { state, message, workers } = await swarmOf(server, model);
    assert.equal(state, "up", message);
    assert.equal(workers.length, kWorkers, `${workers.length} workers: ${message}`);
  }, kPatienceMs);
}

// Streams an answer of each model from `gateway`, and does `action` in the middle of them.
async function throughout(gateway, action) {
  const begun = new Set();
  let done;
  const answers = await Promise.all(kModels.map((model) =>
    stream(gateway.origin, questionOf(model), async (text) => {
      if (text.length > 20) begun.add(model);
      if (begun.size === kModels.length) await (done ??= action());
    })));
  assert.ok(done, "it happened while both answered");
  kModels.forEach((model, i) => assert.equal(answers[i].text, expected[model]));
  return await done;
}

before(async () => {
  if (skip) return;
  for (const model of kModels) packageOf(model);
  cluster = await TestCluster.start({ servers: 0, workers: 0, context: 256 });
});
after(async () => await cluster?.stop());

test("a server leads one model and stands by for another", options, () => explained(async () => {
  a = await startServer("a", [kTiny]);
  await eventually(async () => assert.equal((await cellOf(a, kTiny)).leads, true), kPatienceMs);
  b = await startServer("b", kModels);
  await b.waitFor(/stands by for weft-tiny, which/);
  await eventually(async () => assert.equal((await cellOf(b, kMoe)).leads, true), kPatienceMs);
  // They know both addresses, and ask the second server which models there are.
  const origins = [b, a].map(({ origin }) => origin.replace(/^http/, "ws"));
  for (let i = 0; i < kWorkers; ++i)
    cluster.workers.push(nativeWorker(origins[0], [origins[1], "--name", `device ${i}`,
      "--memory", "600MiB", "--threads", "1", "--cache", join(cluster.folder, `cache ${i}`)]));
  await leads(a, kTiny);
  await leads(b, kMoe);
  for (const model of kModels) expected[model] = await textOf(b, model);
  assert.notEqual(expected[kTiny], expected[kMoe]);
  assert.equal(await textOf(a, kTiny), expected[kTiny]);
  const { leader, leads: isLed } = await cellOf(b, kTiny);
  assert.equal(isLed, false);
  assert.equal(leader, new URL(a.origin).host);
  const metrics = await (await fetch(`${b.origin}/metrics`)).text();
  assert.match(metrics, /weft_requests_forwarded_total\{model="weft-tiny"\} 1\n/);
  assert.match(metrics, /weft_requests_forwarded_total\{model="weft-tiny-moe"\} 0\n/);
}));

test("when one model's leader dies, its standby leads both", options, () => explained(async () => {
  const { incarnation } = await cellOf(b, kMoe);
  await throughout(b, async () => a.child.kill("SIGKILL"));
  await leads(b, kTiny);
  assert.equal((await cellOf(b, kMoe)).incarnation, incarnation, "the other one stays");
  assert.equal((await cellOf(b, kTiny)).leader, new URL(b.origin).host);
}));

test("both models answer at both servers, which say so of each", options, () =>
  explained(async () => {
    cluster.servers.splice(cluster.servers.indexOf(a), 1);
    a = await startServer("a", kModels, a.port);
    for (const server of [a, b]) {
      for (const model of kModels) {
        await eventually(async () => assert.equal(await textOf(server, model), expected[model]),
          kPatienceMs);
        const probe = await fetch(`${server.origin}/readyz?model=${model}`);
        assert.equal(probe.status, 200, await probe.text());
      }
      assert.equal((await fetch(`${server.origin}/readyz`)).status, 200);
      assert.equal((await fetch(`${server.origin}/readyz?model=other`)).status, 503);
      const { data } = await (await fetch(`${server.origin}/v1/models`)).json();
      assert.deepEqual(data.map(({ id, state }) => [id, state]),
        kModels.map((model) => [model, "loaded"]));
    }
    // A server reads what the others serve once in a while.
    await eventually(async () => {
      const { servers } = await clusterOf(b);
      assert.deepEqual(servers.map(({ models }) => models), [kModels, kModels]);
    });
    const { status, stdout, stderr } = command("status");
    assert.equal(status, 0, stderr);
    const lineOf = (name) => stdout.split("\n").find((line) => line.startsWith(name));
    assert.match(lineOf(new URL(b.origin).host), /s +weft-tiny, weft-tiny-moe +- +\d/);
    assert.match(lineOf(new URL(a.origin).host), /s +- +weft-tiny, weft-tiny-moe +\d/);
    // The last of the devices that lost their server may be on its way still.
    const leader = new URL(b.origin).host;
    await eventually(async () => {
      const said = command("status").stdout;
      for (const model of kModels)
        assert.match(said, new RegExp(`^${model} +${leader} +3 +yes`, "m"));
    }, kPatienceMs);
  }));

test("when the leader of both models dies, both answers go on", options, () =>
  explained(async () => {
    await throughout(a, async () => b.child.kill("SIGKILL"));
    for (const model of kModels) {
      await leads(a, model);
      assert.equal(await textOf(a, model), expected[model]);
    }
  }));

test("a drained server gives both models to the other one", options, () => explained(async () => {
  cluster.servers.splice(cluster.servers.indexOf(b), 1);
  b = await startServer("b", kModels, b.port);
  await b.waitFor(/stands by for weft-tiny,/);
  await b.waitFor(/stands by for weft-tiny-moe,/);
  const [from, to] = [a, b];
  await throughout(to, async () => {
    const { status, stdout, stderr } = command("drain", new URL(from.origin).host);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /leads nothing\. Stop it now/);
  });
  for (const model of kModels) await leads(to, model);
  assert.equal((await clusterOf(from)).leads, false);
  for (const server of [from, to])
    for (const model of kModels) assert.equal(await textOf(server, model), expected[model]);
}));

test("a cluster's server is told its models", { skip }, () => {
  const { status, stderr } = spawnSync(weft,
    ["serve", "--port", "0", "--url", "http://127.0.0.1:1", "--cluster", cluster.database.url,
      "--cluster-key", cluster.key], { encoding: "utf8" });
  assert.notEqual(status, 0);
  assert.match(stderr, /name one or more packages/);
});
