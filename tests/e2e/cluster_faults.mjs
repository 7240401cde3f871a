// What clients see of a cluster's faults, in short; `./dev bench failover` has the long runs.
// Servers are killed in mid-answer and while a prompt is read, one after another under many
// clients; the database stops, and is killed while it writes.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";

import { stopDatabase } from "../../bench/failover/database.mjs";
import { expectedOf, kKill, kStop, loseLeader, loseReader, requestOf } from
  "../../bench/failover/kills.mjs";
import { killUnderClients } from "../../bench/failover/many_clients.mjs";
import { TestCluster, clusterOf } from "./lib/cluster.mjs";
import { noPostgres } from "./lib/postgres.mjs";
import { complete, eventually, reasonToSkip, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noPostgres();
const options = { skip, timeout: 300_000 };
const kPatienceMs = 60_000;
const kKills = 3;
// Rows that the next leader may compute of an answer whose prompt it does not read: those of its
// tokens, and a few that were on their way.
const kMostBeside = 40;
let cluster;

before(async () => {
  if (!skip) cluster = await TestCluster.start({ context: 4096, memory: "100MiB", sessions: 2,
    serve: ["--queue", "400"] });
});
after(async () => await cluster?.stop());

const explained = (action) => cluster.explained(action);

// So often, and each time the whole text.
async function loseOften(t, request, fault = kKill) {
  const { server } = await cluster.settled();
  const expected = await expectedOf(server, request);
  const runs = [];
  while (runs.length < kKills) {
    const { text, ...run } = await loseLeader(cluster, request, { fault });
    t.diagnostic(JSON.stringify(run));
    assert.equal(run.error, null);
    assert.equal(text, expected.text);
    runs.push(run);
  }
  assert.equal(await cluster.differences(), 0);
  return { runs, expected };
}

test("a leader is killed in mid-answer", options, (t) => explained(async () => {
  await loseOften(t, requestOf(1, 80));
}));

test("a long prompt is not read again", options, (t) => explained(async () => {
  const request = requestOf(165, 60);
  const { runs, expected } = await loseOften(t, request);
  assert.ok(expected.promptTokens > 2600, `${expected.promptTokens} tokens`);
  // Where devices come back slowly a plan may change, and the prompt is read once more: that is
  // one kill of hundreds.
  const [, middle] = runs.map(({ computed }) => computed).sort((x, y) => x - y);
  assert.ok(middle < 60 + kMostBeside, `${middle} rows`);
}));

test("a leader is killed while a prompt is read", options, (t) => explained(async () => {
  const { server } = await cluster.settled();
  // A machine that was busy when this was measured may be quick by now.
  let { firstMs } = await expectedOf(server, requestOf(165, 20, "Before. "));
  for (let kills = 0, tries = 0; kills < kKills; ++tries) {
    const request = requestOf(165, 20, `This is story number ${tries}. `);
    const { text, ...run } = await loseReader(cluster, request, kKill, firstMs / 2);
    t.diagnostic(JSON.stringify(run));
    if (run.was_missed) {
      firstMs /= 2;
      continue;
    }
    assert.ok(run.is_same, `${text} ${run.error}`);
    ++kills;
  }
}));

test("a leader stops without a word", options, (t) => explained(async () => {
  await loseOften(t, requestOf(1, 80), kStop);
}));

test("a database that stops is not noticed by clients", options, (t) => explained(async () => {
  const { server } = await cluster.settled();
  const request = requestOf(1, 80);
  const run = await stopDatabase(cluster, request, await expectedOf(server, request),
    { clients: 3, seconds: 7 });
  t.diagnostic(JSON.stringify(run));
  assert.deepEqual(run.errors, []);
  assert.equal(run.wrong, 0);
  assert.ok(run.answers > 3);
  assert.equal(run.has_moved, false);
  assert.ok(run.is_kept, "the row has what the leader leads with");
}));

// Whether the key was acknowledged: the command prints it, or the server says 201.
function addByCommand(name) {
  const env = { ...process.env, WEFT_CLUSTER: cluster.database.url };
  return new Promise((resolve) =>
    execFile(weft, ["keys", "add", name], { env }, (error) => resolve(error === null)));
}

async function addByServer({ origin }, name) {
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch(`${origin}/api/keys`,
      { method: "POST", headers, body: JSON.stringify({ name }) });
    await response.text();
    return response.status === 201;
  } catch {
    return false; // it was killed
  }
}

// Adds API keys all the time. stop() gives the names of those that were acknowledged.
function addingKeys() {
  const acknowledged = { command: [], server: [] };
  let ends = false;
  const again = async (kind, add) => {
    for (let i = 0; !ends; ++i) {
      const name = `${kind}-${i}`;
      if (await add(name, i)) acknowledged[kind].push(name);
      // A server that is gone says so at once.
      else await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const loops = [again("command", addByCommand), again("server", (name, i) =>
    addByServer(cluster.servers[i % cluster.servers.length], name))];
  return {
    acknowledged,
    stop: async () => {
      ends = true;
      await Promise.all(loops);
    },
  };
}

// Each kill is at another moment of its renewals, of a take, and of keys that are made.
test("a database that is killed while it writes keeps every lease and key", options, (t) =>
  explained(async () => {
    const { server: first } = await cluster.settled();
    const keys = addingKeys();
    t.after(() => keys.stop());
    const { command, server: byServer } = keys.acknowledged;
    const request = requestOf(1, 20);
    const ask = async ({ origin }) => (await complete(origin, { ...request, temperature: 1 }))
      .choices[0].message.content;
    const expected = await ask(first);
    for (let i = 0; i < kKills; ++i) {
      const { server: leader } = await cluster.settled();
      const { cells: [{ incarnation }] } = await clusterOf(leader);
      // The second time while another server takes the cell.
      if (i === 1) leader.child.kill("SIGKILL");
      if (i === 1) await new Promise((resolve) => setTimeout(resolve, 250));
      await cluster.database.kill();
      await cluster.database.start();
      const [row] = cluster.database.query("select incarnation from cells");
      t.diagnostic(`led with ${incarnation}, the row has ${row}`);
      assert.ok(BigInt(row) >= BigInt(incarnation), "what was acknowledged is there");
      if (i === 1) await cluster.startAgain(leader);
      else assert.equal(await ask(leader), expected, "it has led on");
      const { server: now } = await eventually(() => cluster.settled(), kPatienceMs);
      await eventually(async () => {
        const { cells: [{ incarnation: read }] } = await clusterOf(now);
        assert.deepEqual(cluster.database.query("select incarnation from cells"), [`${read}`]);
      });
      assert.equal(await ask(now), expected);
      // Some behind each kill, so that the next one may lose them.
      const [commands, servers] = [command.length, byServer.length];
      await eventually(() =>
        assert.ok(command.length > commands && byServer.length > servers), kPatienceMs);
    }
    await keys.stop();
    await cluster.database.kill();
    await cluster.database.start();
    const kept = new Set(cluster.database.query("select name from keys where ended is null"));
    t.diagnostic(`${command.length} keys of the command, ${byServer.length} of servers, ` +
      `${kept.size} are there`);
    assert.deepEqual([...command, ...byServer].filter((name) => !kept.has(name)), []);
    await cluster.settled();
  }));

test("fifty clients, and servers that are killed in turn", options, (t) => explained(async () => {
  const { wrong, errors, ...run } = await killUnderClients(cluster,
    { clients: 50, seconds: 20, everyS: 5, tokens: 40 });
  t.diagnostic(JSON.stringify(run));
  assert.deepEqual(wrong, []);
  assert.deepEqual(errors, []);
  assert.equal(run.differences, 0);
  assert.ok(run.kills >= kKills);
  assert.ok(run.answers > 50);
}));
