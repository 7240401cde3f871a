// Devices that are broken, or lie: real workers behind a proxy that says something else than they.
// Whoever asks gets an answer all the same, and the page names who it was.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { failing, notFinite, withoutWeights, wrongRows } from "./lib/lies.mjs";
import { proxy } from "./lib/proxy.mjs";
import {
  eventually, nativeWorker, packageOf, reasonToSkip, serve, swarmOf,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kServer = ["--context", "256", "--sessions", "2", "--threads", "1"];
const kName = "Liar";
// Who comes through something that others come through, too, is not taken for the owner. Names that
// begin with "Own" come straight.
const kStranger = { "x-forwarded-for": "192.0.2.7" };

// body({server, workers, swarm}): of each worker `says` is what it says from now on.
function liarsTest(name, { args = [], memory = "256MiB", names = [kName] }, body) {
  test(name, { skip, timeout: 300_000 }, async () => {
    const server = await serve(packageOf("weft-tiny"), [...kServer, ...args]);
    const workers = [];
    for (const each of names) workers.push(await worker(server, each, memory));
    const swarm = async () => {
      const { workers: joined, stages, state } = await swarmOf(server.origin);
      const nameOf = (id) => joined.find((each) => each.id === id)?.name;
      return { joined: new Map(joined.map((each) => [each.name, each])), state,
        stages: stages.map((stage) => nameOf(stage.worker)) };
    };
    try {
      await body({ server, workers, swarm });
    } finally {
      for (const each of workers) await each.stop();
      await server.stop();
    }
  });
}

async function worker(server, name, memory, { delayMs = 0 } = {}) {
  const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
  const state = { name, says: (message) => message };
  const rewrite = (message) => state.says(message);
  const added = name.startsWith("Own") ? {} : kStranger;
  const line = await proxy(server.origin, () => false, { rewrite, added, delayMs });
  const native = nativeWorker(line.origin,
    ["--memory", memory, "--threads", "1", "--cache", cache, "--name", name]);
  state.stop = async () => {
    await native.stop();
    line.close();
    rmSync(cache, { recursive: true });
  };
  return state;
}

// How many of so many requests are answered, and what the others were told.
async function ask(server, count) {
  const refusals = [];
  let answered = 0;
  for (let i = 0; i < count; ++i) {
    const response = await fetch(`${server.origin}/v1/chat/completions`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ model: "weft-tiny", max_tokens: 8, temperature: 0,
        messages: [{ role: "user", content: `Tell me story ${i}.` }] }),
    });
    const answer = await response.json();
    if (response.status === 200 && answer.choices[0].message.content !== "") ++answered;
    else refusals.push(`${response.status} ${JSON.stringify(answer)}`);
  }
  return { answered, refusals };
}

// The worker that runs the first of `count` stages, once they are up, says this from now on.
async function spoilFront({ workers, swarm }, count, lie) {
  const { stages: [front] } = await eventually(async () => {
    const seen = await swarm();
    assert.equal(seen.state, "up");
    assert.equal(seen.stages.length, count, `${seen.stages}`);
    return seen;
  }, 120_000);
  workers.find(({ name }) => name === front).says = lie;
  return front;
}

liarsTest("a device whose every step fails costs no request",
  { args: ["--no-worker"], names: ["One", "Two"] }, async (rig) => {
    const liar = await spoilFront(rig, 1, failing);
    assert.deepEqual(await ask(rig.server, 30), { answered: 30, refusals: [] });
    const { joined, stages } = await rig.swarm();
    assert(!stages.includes(liar), `${stages}`);
    assert.match(joined.get(liar).problem, /Layer 3 gave 7 values that are not finite/);
  });

liarsTest("a device whose rows are not finite is named, and not who is behind it",
  { args: ["--no-worker"], memory: "16MiB", names: ["One", "Two", "Three"] }, async (rig) => {
    const liar = await spoilFront(rig, 2, notFinite);
    assert.deepEqual(await ask(rig.server, 24), { answered: 24, refusals: [] });
    const { joined, stages } = await rig.swarm();
    assert(!stages.includes(liar), `${stages}`);
    for (const { name, problem } of joined.values()) {
      if (name !== liar) assert.equal(problem, "");
      else assert.match(problem, /It gave 1 values behind layer \d+ that are not finite/);
    }
  });

liarsTest("a device without weights that says it is fast gets no layers", {},
  async ({ server, workers: [liar], swarm }) => {
    liar.says = withoutWeights;
    await eventually(async () =>
      assert.equal((await swarm()).joined.get(kName)?.check, "failed"), 120_000);
    const { problem } = (await swarm()).joined.get(kName);
    assert.match(problem, /Its rows of layer \d+ are not those of .* It is not used/);
    assert.match(server.output, /Liar.*Its rows of layer/);
    for (let i = 0; i < 10; ++i) {
      const { state, stages } = await swarm();
      assert.equal(state, "up");
      assert(!stages.includes(kName));
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    assert.deepEqual(await ask(server, 4), { answered: 4, refusals: [] });
  });

// It has the weights and passes its check. From some moment on its rows are other ones. Another
// device could do its part, and has so slow a line that no plan takes it before that.
liarsTest("a device that computes something else later is out within three requests",
  { args: ["--no-worker"], memory: "16MiB", names: ["Own 1", kName] },
  async ({ server, workers, swarm }) => {
    await eventually(async () => {
      const { stages, joined } = await swarm();
      assert(stages.includes(kName), `${stages}`);
      assert.equal(joined.get("Own 1").check, "trusted");
    }, 120_000);
    workers.push(await worker(server, "Own 2", "16MiB", { delayMs: 40 }));
    await eventually(async () =>
      assert.equal((await swarm()).joined.get(kName).check, "passed"), 120_000);
    assert.deepEqual(await ask(server, 4), { answered: 4, refusals: [] });
    assert.equal((await swarm()).joined.get(kName).check, "passed");
    // On a busy machine a step of it may have been late, and the other one has taken its place: the
    // next search gives it back.
    await eventually(async () => {
      const { stages: before } = await swarm();
      assert(before.includes(kName), `${before}`);
    }, 60_000);

    workers.find(({ name }) => name === kName).says = wrongRows;
    await ask(server, 3);
    await eventually(async () => {
      const { joined: now, stages: serving } = await swarm();
      assert.equal(now.get(kName).check, "failed", `${serving}`);
    }, 10_000);
    const { joined, stages } = await swarm();
    assert.match(joined.get(kName).problem, /Its rows of layer \d+ are not those of/);
    assert(!stages.includes(kName), `${stages}`);
    assert.deepEqual(await ask(server, 4), { answered: 4, refusals: [] });
  });
