// A dense model in neuron groups: the built-in worker keeps everything but the MLPs, whose groups
// it computes together with native workers. So are attention's products computed where they are in
// ranges. The answer is that of one device alone with the same grids, whoever computes what, also
// when one of them is killed or stopped in its middle.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";

import {
  complete, eventually, groupedPackageOf, nativeWorker, packageOf, reasonToSkip, serve, settled,
  swarmOf, textWhileLosing, weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny", "weft-tiny-moe");
const kLimits = ["--context", "512", "--sessions", "2", "--journal", "off", "--threads", "1"];
// With a twentieth of its groups the model takes 16 MB here, with all of them 25.
const kHub = "16MiB";
const kRequest = {
  model: "weft-tiny",
  messages: [{ role: "user", content: "Tell me a story about a fox and a bear." }],
  max_tokens: 120,
  temperature: 0,
};

let expected, model, divided;
before(async () => {
  if (skip) return;
  model = groupedPackageOf("weft-tiny");
  divided = groupedPackageOf("weft-tiny", "--attention", "divided");
  const alone = await serve(model.folder, [...kLimits, "--plan", "layers"]);
  try {
    expected = await eventually(async () => {
      const answer = await complete(alone.origin, kRequest);
      return answer.choices[0].message.content;
    });
  } finally {
    await alone.stop();
  }
});

// body({server, workers}): the server and so many workers, which have almost all groups; each
// group is with two of them where they are two.
async function withSwarm(count, body, model) {
  const cache = mkdtempSync(join(tmpdir(), "weft-cache-"));
  const memory = count === 0 ? "256MiB" : kHub;
  const server = await serve(model.folder,
    [...kLimits, "--plan", "tensor", "--worker-memory", memory]);
  const numbers = Array.from({ length: count }, (_, i) => i + 1);
  const workers = numbers.map((number) => nativeWorker(server.origin,
    ["--memory", "64MiB", "--threads", "1", "--cache", join(cache, `${number}`),
      "--name", `helper ${number}`]));
  try {
    await settled(server, count + 1, count > 1 ? 2 * model.groups : model.groups);
    await body({ server, workers });
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
    await server.stop();
    rmSync(cache, { recursive: true });
  }
}

const kWhole = { attention: "attention on the hub", modelOf: () => model };
const kDivided = { attention: "attention divided", modelOf: () => divided };

for (const [count, { attention, modelOf }] of [
  ...[0, 1, 2, 3].map((each) => [each, kWhole]), [1, kDivided], [3, kDivided],
]) {
  const name = `${count} helpers answer as one device alone, ${attention}`;
  test(name, { skip, timeout: 120_000 }, async () => {
    await withSwarm(count, async ({ server }) => {
      const model = modelOf();
      const swarm = await swarmOf(server.origin);
      assert.equal(swarm.experts_needed, model.groups);
      assert.equal(swarm.experts_held, model.groups);
      assert.equal(swarm.in_neuron_groups, true);
      const answer = await complete(server.origin, kRequest);
      assert.equal(answer.choices[0].message.content, expected);
      const { workers } = await swarmOf(server.origin);
      const asked = workers.filter((each) => each.expert_messages > 0);
      assert.ok(asked.length >= Math.min(count, 1), JSON.stringify(workers));
    }, modelOf());
  });
}

test("two answers at once are those of each alone", { skip, timeout: 120_000 }, async () => {
  await withSwarm(2, async ({ server }) => {
    const answers = await Promise.all([1, 2].map(() => complete(server.origin, kRequest)));
    for (const answer of answers) assert.equal(answer.choices[0].message.content, expected);
  }, divided);
});

for (const [signal, { attention, modelOf }] of ["SIGKILL", "SIGSTOP"].flatMap((each) =>
  [[each, kWhole], [each, kDivided]])) {
  const name = `a helper that gets a ${signal} in mid-answer, ${attention}`;
  test(name, { skip, timeout: 120_000 }, async () => {
    const model = modelOf();
    await withSwarm(2, async ({ server, workers }) => {
      const text = await textWhileLosing(server.origin, kRequest, workers[0], signal);
      assert.equal(text, expected);
      await settled(server, 2, model.groups);
      const answer = await complete(server.origin, kRequest);
      assert.equal(answer.choices[0].message.content, expected);
    }, model);
  });
}

// Exits with a sentence instead of serving.
function refusal(...args) {
  try {
    execFileSync(weft, args, { stdio: "pipe", timeout: 20_000 });
  } catch (error) {
    return error.stderr.toString();
  }
  return "none";
}

test("what cannot be served so says what to do", { skip }, () => {
  const dense = packageOf("weft-tiny"), mixture = packageOf("weft-tiny-moe");
  const served = (folder, plan) =>
    refusal("serve", folder, "--plan", plan, "--port", "0", "--journal", "off");
  assert.match(served(dense, "tensor"), /weft groups PACKAGE FOLDER/);
  assert.match(served(mixture, "tensor"), /--plan experts is for/);
  assert.match(served(model.folder, "experts"), /--plan tensor is for/);
  const text = `${model.folder}.jsonl`;
  assert.match(refusal("groups", mixture, `${mixture}-no`, "--text", text), /small enough/);
  assert.match(refusal("groups", model.folder, `${mixture}-no`, "--text", text), /already/);
});
