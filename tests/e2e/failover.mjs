// Three servers with one database lead a model by turns: one is killed, one is drained, and the
// database stops for a while. Workers go on with what they hold, at whoever leads.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync }
  from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { freePort, noPostgres, postgres } from "./lib/postgres.mjs";
import { Tab, buildHarness, harness, launchBrowser, noBrowser } from "./lib/tabs.mjs";
import { complete, eventually, nativeWorker, packageOf, reasonToSkip, serve, stream, swarmOf, weft }
  from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny") || noPostgres();
const kPatienceMs = 30_000;
const kSettledMs = 5000; // longer than spares are let wait before they serve beside the others
const folder = mkdtempSync(join(tmpdir(), "weft-failover-"));
const key = join(folder, "cluster.key");
const kQuestion = {
  model: "weft-tiny", ignore_eos: true, max_tokens: 24,
  messages: [{ role: "user", content: "Tell me a story about a fox." }],
};
// So long that it is cut in the middle, with tokens that are drawn.
const kStory = "A fox found a lantern in the snow and carried it home over the hill. ";
const kLong = {
  ...kQuestion, max_tokens: 150, temperature: 1, seed: 7,
  messages: [{ role: "user", content: kStory.repeat(18) }],
};
let database;
const servers = [];
const workers = [];
let browser;
let deviceCount = 2;

function cluster(...args) {
  const env = { ...process.env, WEFT_CLUSTER: "", HOME: folder, XDG_STATE_HOME: folder };
  const { status, stdout, stderr } = spawnSync(weft, ["cluster", ...args], { env });
  return { status, output: stdout.toString() + stderr.toString() };
}

// Each has a state folder of its own, as a machine has.
async function startServer(name, port, context = 512) {
  const url = `http://127.0.0.1:${port}`;
  const server = await serve(packageOf("weft-tiny"),
    ["--port", String(port), "--url", url, "--cluster", database.url, "--cluster-key", key,
      "--context", String(context), "--sessions", "2", "--no-worker",
      ...(noBrowser() ? [] : ["--web-root", harness])],
    { XDG_STATE_HOME: join(folder, name) });
  servers.push(Object.assign(server, { url, place: `127.0.0.1:${port}` }));
  return server;
}

const clusterOf = async ({ origin }) => await (await fetch(`${origin}/api/cluster`)).json();
const isRunning = ({ child }) => child.exitCode === null && child.signalCode === null;
const running = () => servers.filter(isRunning);

async function leader() {
  for (const server of running()) if ((await clusterOf(server)).leads) return server;
  throw new Error("nobody leads");
}

// What devices hold, as the plans that serve name it.
const bindingsOf = ({ stages, side_plans: others }) =>
  [stages, ...others.map((plan) => plan.stages)].flat().map(({ binding }) => binding).sort();

// A plan that serves now was not loaded again.
function assertKept(before, now) {
  const [had, serves] = [bindingsOf(before), bindingsOf(now)];
  assert.ok(serves.some((binding) => had.includes(binding)), `${had} became ${serves}`);
}

// Who leads, once the workers are there and the model is up; with `isSettled` once no other plan
// comes.
async function upAt(workerCount, isSettled = false) {
  let [serves, servesSince] = ["", 0];
  return await eventually(async () => {
    const server = await leader();
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.state, "up", JSON.stringify(swarm));
    assert.equal(swarm.workers.length, workerCount);
    const bindings = bindingsOf(swarm).join();
    if (bindings !== serves) [serves, servesSince] = [bindings, Date.now()];
    if (isSettled) assert.ok(Date.now() - servesSince > kSettledMs, bindings);
    return { server, swarm };
  }, kPatienceMs);
}


async function metric({ origin }, name) {
  const text = await (await fetch(`${origin}/metrics`)).text();
  return Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1]);
}

// Tokens are drawn, with a seed that follows from the key of the request.
async function answerTo({ origin }, key) {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST", headers: { "Content-Type": "application/json", "Idempotency-Key": key },
    body: JSON.stringify({ ...kQuestion, temperature: 2 }),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer.choices[0].message.content;
}

// A tab that helps, where there is a browser: its page is that of the server.
async function openTab(server) {
  if (noBrowser()) return;
  browser ??= await launchBrowser();
  const tab = await Tab.open(await browser.newContext(), server.origin);
  await tab.start({ name: "tab", memoryBytes: 256e6 });
  await upAt(++deviceCount);
  // It says that it is ready when it has been checked.
  await eventually(async () => {
    const { workers: devices } = await swarmOf(server.origin);
    assert.ok(devices.every(({ state }) => state !== "preparing"), JSON.stringify(devices));
  }, kPatienceMs);
}

async function explained(action) {
  try {
    return await action();
  } catch (error) {
    const said = [...servers, ...workers].map(({ output }, i) => `--- ${i}\n${output}`);
    error.stack += `\n${said.join("\n")}`;
    throw error;
  }
}

before(async () => {
  if (skip) return;
  database = await postgres();
  if (!noBrowser()) await buildHarness();
});

after(async () => {
  if (browser) await browser.close();
  for (const { child } of workers) child.kill("SIGKILL");
  for (const server of running()) await server.stop();
  if (database) await database.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("init makes tables and a key, and says what is wrong", { skip }, () => {
  const missing = cluster("status", "--cluster", database.url);
  assert.equal(missing.status, 3, missing.output);
  assert.match(missing.output, /no tables of weft: run `weft cluster init` once/);
  const first = cluster("init", database.url, "--cluster-key", key);
  assert.equal(first.status, 0, first.output);
  assert.match(first.output, /copy that file to each server/);
  assert.equal(statSync(key).mode & 0o777, 0o600);
  assert.match(readFileSync(key, "utf8"), /^[0-9a-f]{64}\n$/);
  const again = cluster("init", database.url, "--cluster-key", key);
  assert.equal(again.status, 0, again.output);

  const other = join(folder, "other.key");
  const foreign = cluster("init", database.url, "--cluster-key", other);
  assert.equal(foreign.status, 2, foreign.output);
  assert.match(foreign.output, /a cluster with another key/);
  assert.ok(!existsSync(other), "a key that fits nothing is not kept");
  writeFileSync(other, readFileSync(key), { mode: 0o600 });
  chmodSync(other, 0o644);
  assert.match(cluster("init", database.url, "--cluster-key", other).output, /Others may read/);

  const nowhere = cluster("status", "--cluster", "postgres://weft@127.0.0.1:9/weft");
  assert.equal(nowhere.status, 1);
  assert.match(nowhere.output, /database cannot be used .* check that it runs/s);
  const none = cluster("status");
  assert.equal(none.status, 2);
  assert.match(none.output, /WEFT_CLUSTER/);
  assert.match(cluster("status", "--cluster", database.url).output, /has no servers yet/);
});

test("the first server leads, and others stand by", { skip, timeout: 180_000 }, () =>
  explained(async () => {
    const [a, b, c] = [await freePort(), await freePort(), await freePort()];
    const first = await startServer("a", a);
    await eventually(async () => assert.ok((await clusterOf(first)).leads), kPatienceMs);
    // Workers know the first one alone; the others are told to them when they come.
    for (const name of ["one", "two"])
      workers.push(nativeWorker(first.origin,
        ["--name", name, "--threads", "1", "--cache", join(folder, `cache-${name}`)]));
    await upAt(2);
    const second = await startServer("b", b, 256);
    await startServer("c", c);
    await second.waitFor(/stands by for weft-tiny/);
    await eventually(async () => {
      for (const server of servers) {
        const { servers: known } = await clusterOf(server);
        assert.ok(known.length === 3 && known.every((each) => each.is_linked));
      }
    }, kPatienceMs);
    assert.match(second.output, /the cell has the options of the server that made it: 512/);
    const { output } = cluster("status", "--cluster", database.url);
    assert.match(output, /weft-tiny +127\.0\.0\.1:\d+ +2 +yes/);

    // Any server answers, wherever the model is led.
    const answers = await Promise.all([first, second].map(({ origin }) =>
      complete(origin, kQuestion)));
    assert.equal(answers[1].choices[0].message.content, answers[0].choices[0].message.content);
    assert.deepEqual(answers[1].usage.completion_tokens, kQuestion.max_tokens);
    assert.equal(await metric(second, "weft_requests_forwarded_total"), 1);
    assert.equal((await fetch(`${second.origin}/readyz`)).status, 200);
    // So its page lets people ask.
    const { state, message } = await swarmOf(second.origin);
    assert.equal(state, "up", message);
    assert.match(message, /leads this model, and this server stands by/);

    const alike = spawnSync(weft,
      ["serve", packageOf("weft-tiny"), "--port", String(b), "--url", second.url, "--cluster",
        database.url, "--cluster-key", key],
      { env: { ...process.env, XDG_STATE_HOME: join(folder, "d") } });
    assert.equal(alike.status, 5);
    assert.match(alike.stderr.toString(), /another server called '127\.0\.0\.1:\d+'/);
  }));

test("a database that stops for seconds moves nothing", { skip, timeout: 180_000 }, () =>
  explained(async () => {
    const { server } = await upAt(2, true);
    const before = await clusterOf(server);
    database.pause();
    await eventually(async () => assert.equal((await clusterOf(server)).database, false),
      kPatienceMs);
    const { choices } = await complete(server.origin, kQuestion);
    assert.equal(choices[0].finish_reason, "length");
    // Longer than a lease lasts.
    await new Promise((resolve) => setTimeout(resolve, 4000));
    database.goOn();
    await eventually(async () => {
      for (const each of servers) assert.ok((await clusterOf(each)).database);
    }, kPatienceMs);
    const after = await clusterOf(server);
    assert.ok(after.leads);
    assert.deepEqual(after.cells[0].incarnation, before.cells[0].incarnation);
  }));

test("the leader is killed: another one has its workers with what they hold",
  { skip, timeout: 180_000 }, (t) => explained(async () => {
    await openTab((await upAt(2)).server);
    const { server, swarm } = await upAt(deviceCount, true);
    const { choices: [{ message: said }] } = await complete(server.origin, kQuestion);
    const drawn = await answerTo(server, "one");
    // Who asks another server than the one that is killed gets all of the answer, after a pause.
    const gateway = running().find((each) => each !== server);
    const whole = await stream(gateway.origin, kLong);
    let [killed, last, pause, held] = [0, 0, 0, swarm];
    const cut = await stream(gateway.origin, kLong, async (text) => {
      if (killed > 0) pause = Math.max(pause, Date.now() - last);
      last = Date.now();
      if (killed > 0 || text.length < 40) return;
      held = await swarmOf(server.origin); // a plan may have changed since it was settled
      killed = Date.now();
      server.child.kill("SIGKILL");
      await server.exited;
    });
    t.diagnostic(`the answer paused for ${pause} ms`);
    assert.ok(killed > 0);
    assert.deepEqual(cut, whole);
    assert.equal(await metric(gateway, "weft_splice_differs_total"), 0);
    assert.equal(await metric(gateway, "weft_requests_moved_total"), 1);
    const now = await upAt(deviceCount);
    const { computed_positions: computed } = await swarmOf(now.server.origin);
    t.diagnostic(`the next leader computed ${computed} positions`);
    t.diagnostic(`up at another server ${Date.now() - killed} ms after the kill`);
    assert.notEqual(now.server, server);
    assertKept(held, now.swarm);
    const { choices } = await complete(now.server.origin, kQuestion);
    assert.equal(choices[0].message.content, said.content);
    assert.equal(await answerTo(now.server, "one"), drawn, "the key's seed is the same");
    assert.notEqual(await answerTo(now.server, "another"), drawn);
    const { output } = cluster("status", "--cluster", database.url);
    assert.match(output, new RegExp(`${server.place} -> ${now.server.place} `));
  }));

test("a server that is drained gives its model to another one, and its answers go on",
  { skip, timeout: 180_000 }, () => explained(async () => {
    const { server } = await upAt(deviceCount, true);
    const whole = await stream(server.origin, kLong);
    let drained, held;
    const answer = await stream(server.origin, kLong, async () => {
      held ??= await swarmOf(server.origin);
      drained ??= new Promise((resolve) => setTimeout(() =>
        resolve(cluster("drain", server.place, "--cluster", database.url)), 0));
    });
    assert.deepEqual(answer, whole);
    const { status, output } = await drained;
    assert.equal(status, 0, output);
    assert.match(output, /leads nothing\. Stop it now/);
    const now = await upAt(deviceCount);
    assert.notEqual(now.server, server);
    assertKept(held, now.swarm);
    assert.match(cluster("status", "--cluster", database.url).output, /\(drained\)/);
    const nobody = cluster("drain", "nobody", "--cluster", database.url);
    assert.equal(nobody.status, 3);
    assert.match(nobody.output, /no server 'nobody'; it has /);
  }));
