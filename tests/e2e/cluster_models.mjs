// Two models in one cluster: each has a cell with a lease of its own, and servers that may lead it.
// What happens to one model's leader is nothing to the other model.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freePort, noPostgres, postgres } from "./lib/postgres.mjs";
import {
  complete, endAll, eventually, nativeWorker, packageOf, reasonToSkip, serve, weft,
} from "./lib/weft.mjs";

const kModels = ["weft-tiny", "weft-tiny-moe"];
const skip = reasonToSkip(...kModels) || noPostgres();
const kPatienceMs = 30_000;
const folder = mkdtempSync(join(tmpdir(), "weft-models-"));
const keyFile = join(folder, "cluster.key");
const servers = {}; // by model: [first, second]
let database;

function cluster(...args) {
  const env = { ...process.env, WEFT_CLUSTER: database.url, XDG_STATE_HOME: folder };
  const { status, stdout, stderr } = spawnSync(weft, ["cluster", ...args],
    { encoding: "utf8", env });
  assert.equal(status, 0, stderr);
  return stdout;
}

// One state folder for all of a machine, as two servers of one user have.
async function startServer(model, machine) {
  const port = await freePort();
  return await serve(packageOf(model),
    ["--port", String(port), "--url", `http://127.0.0.1:${port}`, "--cluster", database.url,
      "--cluster-key", keyFile, "--context", "256", "--sessions", "2", "--no-worker"],
    { XDG_STATE_HOME: join(folder, machine) });
}

const clusterOf = async ({ origin }) => await (await fetch(`${origin}/api/cluster`)).json();

async function ready(server) {
  await eventually(async () =>
    assert.equal((await fetch(`${server.origin}/readyz`)).status, 200), kPatienceMs);
}

async function answer(server, model) {
  const { choices } = await complete(server.origin, { model, max_tokens: 8, ignore_eos: true,
    temperature: 0, messages: [{ role: "user", content: "Where does Mira live?" }] });
  return choices[0].message.content;
}

// {model: {leader, up}} of the table of cells.
function cellsOf(status) {
  const [, table] = status.split("\n\n");
  return Object.fromEntries(table.trim().split("\n").slice(1).map((line) => {
    const [model, leader, , up] = line.split(/\s+/);
    return [model, { leader, up }];
  }));
}

const placeOf = ({ origin }) => new URL(origin).host;

before(async () => {
  if (skip) return;
  database = await postgres();
  cluster("init", database.url, "--cluster-key", keyFile);
  for (const model of kModels) {
    const first = await startServer(model, "a");
    nativeWorker(first.origin, [], { XDG_STATE_HOME: join(folder, `worker-${model}`) });
    await ready(first);
    servers[model] = [first, await startServer(model, "b")];
    for (const server of servers[model]) await ready(server);
  }
});

after(async () => {
  await endAll();
  await database?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("each model is led by a server of its own, and answered at any of its servers", { skip },
  async () => {
    for (const model of kModels) {
      const [first, second] = servers[model];
      assert.equal((await clusterOf(first)).leads, true);
      assert.equal((await clusterOf(second)).leads, false);
      assert.equal(await answer(second, model), await answer(first, model));
    }
  });

test("the table of the cluster has both models, and who stands by for which", { skip }, () => {
  const status = cluster("status");
  const cells = cellsOf(status);
  for (const model of kModels) {
    const [first, second] = servers[model];
    assert.deepEqual(cells[model], { leader: placeOf(first), up: "yes" });
    const lineOf = (server) => status.split("\n").find((line) => line.startsWith(placeOf(server)));
    assert.match(lineOf(first), new RegExp(`s +${model} +- +\\d`));
    assert.match(lineOf(second), new RegExp(`s +- +${model} +\\d`));
  }
});

test("when one model's leader dies, the other model stays where it is", { skip }, async () => {
  const [tiny, moe] = kModels;
  const before = (await clusterOf(servers[moe][0])).cells.find(({ model }) => model === moe);
  const text = await answer(servers[tiny][1], tiny);
  servers[tiny][0].child.kill("SIGKILL");
  await eventually(async () =>
    assert.equal((await clusterOf(servers[tiny][1])).leads, true), kPatienceMs);
  assert.equal(await answer(servers[tiny][1], tiny), text);
  const now = (await clusterOf(servers[moe][0])).cells.find(({ model }) => model === moe);
  assert.equal(now.incarnation, before.incarnation);
  assert.equal((await clusterOf(servers[moe][0])).leads, true);
});

test("a server is drained to one of its own model", { skip }, async () => {
  const [, moe] = kModels;
  const [first, second] = servers[moe];
  const text = await answer(second, moe);
  cluster("drain", placeOf(first));
  await ready(second);
  assert.equal((await clusterOf(second)).leads, true);
  await eventually(async () => assert.equal(await answer(second, moe), text), kPatienceMs);
});
