// A mixture of experts whose experts do not fit on the server: the built-in worker keeps what every
// token needs, native workers hold the experts. The answer is that of one worker alone, also when
// who holds experts is killed or stopped in its middle.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";

import {
  complete, eventually, gpuWorker, nativeWorker, noDawn, packageOf, reasonToSkip, serve, settled,
  stream, swarmOf, textWhileLosing, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny-moe");
const kLimits = ["--context", "512", "--sessions", "2", "--journal", "off", "--threads", "1"];
// Without its experts the model takes 9 MB here, with them 18.
const kHub = ["--plan", "experts", "--worker-memory", "11MiB"];
const kExperts = 8 * 16;
const kRequest = {
  model: "weft-tiny-moe",
  messages: [{ role: "user", content: "Tell me a story about a fox and a bear." }],
  max_tokens: 160,
};

const whole = () => ({ folder: packageOf("weft-tiny-moe"), experts: kExperts });

// body({server, workers}): a server and so many workers that hold all experts of its hub between
// them, at least twice.
async function withSwarm(body, count = 3, hub = kHub, { folder, experts } = whole()) {
  const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
  const server = await serve(folder, [...kLimits, ...hub]);
  const numbers = Array.from({ length: count }, (_, i) => i + 1);
  const workers = numbers.map((number) => nativeWorker(server.origin,
    ["--memory", "32MiB", "--threads", "1", "--cache", join(cache, `${number}`),
      "--name", `holder ${number}`]));
  try {
    await settled(server, hub.includes("--no-worker") ? count : count + 1, 2 * experts);
    await body({ server, workers });
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
    await server.stop();
    rmSync(cache, { recursive: true });
  }
}

async function textAlone(folder) {
  const alone = await serve(folder, [...kLimits, "--worker-memory", "256MiB"]);
  try {
    return await eventually(async () => {
      const answer = await complete(alone.origin, kRequest);
      return answer.choices[0].message.content;
    });
  } finally {
    await alone.stop();
  }
}

let expected;
before(async () => {
  if (!skip) expected = await textAlone(packageOf("weft-tiny-moe"));
});

test("a hub and three holders answer as one worker alone", { skip, timeout: 120_000 }, async () => {
  await withSwarm(async ({ server }) => {
    const swarm = await swarmOf(server.origin);
    assert.equal(swarm.experts_needed, kExperts);
    assert.equal(swarm.experts_held, kExperts);
    assert.equal(swarm.stages.length, 1);
    const own = swarm.workers.find((each) => each.name === "this server");
    assert.ok(own.experts_held < kExperts, "the server holds them all");
    const answer = await complete(server.origin, kRequest);
    assert.equal(answer.choices[0].message.content, expected);
    const { workers } = await swarmOf(server.origin);
    const asked = workers.filter((each) => each.expert_messages > 0);
    assert.ok(asked.length >= 2, JSON.stringify(workers));
  });
});

// The hub tells the server once a second.
test("the picture and the metrics say what holders did", { skip, timeout: 120_000 }, async () => {
  await withSwarm(async ({ server }) => {
    const before = await swarmOf(server.origin);
    assert.ok(before.workers.every((each) => each.holder === null), "nobody was asked yet");
    await complete(server.origin, kRequest);
    const holders = await eventually(async () => {
      const { workers } = await swarmOf(server.origin);
      const told = workers.filter((each) => each.holder?.wins > 0);
      assert.ok(told.length >= 2, JSON.stringify(workers));
      return told;
    });
    for (const { holder } of holders) {
      assert.ok(holder.calls >= holder.wins && holder.rows >= holder.calls, JSON.stringify(holder));
      assert.ok(holder.sent_bytes > 0 && holder.received_bytes > 0, JSON.stringify(holder));
      assert.ok(holder.p50_ms > 0 && holder.slowest_ms >= holder.p50_ms, JSON.stringify(holder));
      assert.equal(holder.refused, 0);
    }
    const metrics = await (await fetch(`${server.origin}/metrics`)).text();
    const [{ id, holder: { calls } }] = holders;
    const line = new RegExp(`^weft_holder_calls_total\\{worker="${id}"\\} (\\d+)$`, "m");
    assert.ok(Number(metrics.match(line)?.[1]) >= calls, metrics);
    assert.match(metrics, /^# TYPE weft_holder_p50_ms gauge$/m);
  });
});

// Two bytes a number, of the 256 columns of a row.
test("rows in f16 take half the bytes, and the answer is the same whoever holds what",
  { skip, timeout: 240_000 }, async () => {
    const answers = [];
    for (const count of [2, 3]) {
      await withSwarm(async ({ server }) => {
        const answer = await complete(server.origin, kRequest);
        answers.push(answer.choices[0].message.content);
        const told = await eventually(async () => {
          const { workers } = await swarmOf(server.origin);
          const holders = workers.filter((each) => each.holder?.wins > 0 &&
            each.name !== "this server");
          assert.ok(holders.length > 0, JSON.stringify(workers));
          return holders;
        });
        for (const { holder } of told) {
          assert.ok(holder.received_bytes > 0, JSON.stringify(holder));
          assert.ok(holder.received_bytes <= holder.rows * 256 * 2, JSON.stringify(holder));
        }
      }, count, [...kHub, "--expert-rows", "f16"]);
    }
    assert.equal(answers[0], answers[1]);
  });

test("two answers at once are those of each alone", { skip, timeout: 120_000 }, async () => {
  await withSwarm(async ({ server }) => {
    const answers = await Promise.all([1, 2].map(() => complete(server.origin, kRequest)));
    for (const answer of answers) assert.equal(answer.choices[0].message.content, expected);
  });
});

// Its place is taken as that of any stage; the others go on holding experts.
test("a hub that is killed in mid-answer", { skip, timeout: 120_000 }, async () => {
  await withSwarm(async ({ server, workers }) => {
    const swarm = await swarmOf(server.origin);
    const { name } = swarm.workers.find((each) => each.id === swarm.stages[0].worker);
    let killed = false;
    const { text } = await stream(server.origin, kRequest, () => {
      if (killed) return;
      killed = true;
      workers[Number(name.match(/\d/)[0]) - 1].child.kill("SIGKILL");
    });
    assert.equal(text, expected);
  }, 4, ["--plan", "experts", "--no-worker"]);
});

for (const signal of ["SIGKILL", "SIGSTOP"]) {
  test(`a holder that gets a ${signal} in mid-answer`, { skip, timeout: 120_000 }, async () => {
    await withSwarm(async ({ server, workers }) => {
      const text = await textWhileLosing(server.origin, kRequest, workers[0], signal);
      assert.equal(text, expected);
      // The two others hold everything after a while, and it goes on.
      await settled(server, 3, kExperts);
      const swarm = await swarmOf(server.origin);
      assert.ok(!swarm.workers.some((each) => each.name === "holder 1"), "it is still there");
      assert.equal(swarm.experts_held, kExperts);
      const answer = await complete(server.origin, kRequest);
      assert.equal(answer.choices[0].message.content, expected);
    });
  });
}


// Each expert is two, of half its width. Gives the folder.
function inParts(t) {
  const made = mkdtempSync(join(tmpdir(), "weft-parts-"));
  t.after(() => rmSync(made, { recursive: true }));
  const folder = join(made, "weft-tiny-moe");
  const { status, stdout, stderr } =
    spawnSync(weft, ["groups", packageOf("weft-tiny-moe"), folder, "--columns", "40"]);
  assert.equal(status, 0, stderr.toString());
  assert.match(stdout.toString(), /16 experts in 2 parts of 32 columns each/);
  return folder;
}

test("experts in parts answer as one device with them, also when a holder is killed",
  { skip, timeout: 240_000 }, async (t) => {
    const folder = inParts(t);
    const again = `${folder}-again`;
    const refusal = (...args) => {
      const { status, stderr } = spawnSync(weft, ["groups", ...args]);
      assert.equal(status, 1);
      return stderr.toString();
    };
    assert.match(refusal(packageOf("weft-tiny-moe"), again), /64 columns wide and small enough/);
    assert.match(refusal(folder, again, "--columns", "16"), /of layer 1 are in parts already/);

    const alone = await textAlone(folder);
    await withSwarm(async ({ server, workers }) => {
      const swarm = await swarmOf(server.origin);
      assert.equal(swarm.experts_needed, 2 * kExperts);
      const answer = await complete(server.origin, kRequest);
      assert.equal(answer.choices[0].message.content, alone);
      const text = await textWhileLosing(server.origin, kRequest, workers[0]);
      assert.equal(text, alone);
    }, 3, kHub, { folder, experts: 2 * kExperts });
  });

// By margins its text is a native worker's.
test("a GPU computes experts in parts, of a hub and by itself",
  { skip: skip || noDawn(), timeout: 240_000 }, async (t) => {
    const folder = inParts(t);
    const request = { ...kRequest, max_tokens: 24 };
    const textOf = async ({ origin }) =>
      (await complete(origin, request)).choices[0].message.content;
    const alone = await serve(folder, kLimits);
    const expectedText = await eventually(() => textOf(alone));
    await alone.stop();
    for (const plan of [kHub, ["--plan", "layers", "--no-worker"]]) {
      const server = await serve(folder, [...kLimits, ...plan]);
      const gpu = gpuWorker(server.origin,
        ["--cache", join(folder, "..", plan[1]), "--memory", "256MiB"]);
      try {
        const { workers } = await eventually(async () => {
          const swarm = await swarmOf(server.origin);
          assert.equal(swarm.state, "up", JSON.stringify(swarm));
          assert.ok(swarm.workers.some(({ kind }) => kind === "headless"));
          return swarm;
        }, 120_000);
        assert.equal(await textOf(server), expectedText);
        const held = workers.find(({ kind }) => kind === "headless").experts_held;
        assert.ok(plan === kHub ? held > kExperts : held === 0, `${held} parts`);
      } finally {
        gpu.child.kill("SIGKILL");
        await server.stop();
      }
    }
  });
