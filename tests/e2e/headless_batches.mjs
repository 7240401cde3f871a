// Several conversations at once on one headless worker that holds the whole model: it makes their
// tokens in one batch, and each gets what it gets alone.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { checkpoints, packageOfTwin } from "./lib/twins.mjs";
import { complete, eventually, gpuWorker, noDawn, serve, stream, swarmOf } from "./lib/weft.mjs";

const skip = (existsSync(checkpoints) ? false : `there is no ${checkpoints}`) || noDawn();
const kTopics = ["a fox", "a boat in the rain", "two brothers", "the last apple"];

function requestOf(topic, change) {
  return {
    model: "smollm3", max_tokens: 10, temperature: 0,
    messages: [{ role: "user", content: `Tell me a story about ${topic}.` }],
    ...change,
  };
}
const textOf = ({ choices: [choice] }) => choice.message.content;

test("conversations of one batch get what they get alone", { skip, timeout: 300_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "weft-batch-"));
  const server = await serve(packageOfTwin(folder, "smollm3"),
    ["--context", "256", "--sessions", "4", "--no-worker"]);
  const args = ["--cache", join(folder, "cache"), "--memory", "600MiB"];
  const worker = gpuWorker(server.origin, args);
  const ask = async (topic, change) =>
    textOf(await complete(server.origin, requestOf(topic, change)));
  try {
    await eventually(async () => {
      const { state, stages } = await swarmOf(server.origin);
      assert.deepEqual([state, stages.length], ["up", 1]);
    }, 120_000);
    const alone = [];
    for (const topic of kTopics) alone.push(await ask(topic));
    assert.ok(new Set(alone).size > 2, alone.join());
    assert.deepEqual(await Promise.all(kTopics.slice(0, 2).map((topic) => ask(topic))),
      alone.slice(0, 2));
    assert.deepEqual(await Promise.all(kTopics.map((topic) => ask(topic))), alone);

    // One draws with penalties, one ends early, and one is given up in the middle.
    const drawn = { temperature: 0.9, seed: 11, top_p: 0.8, frequency_penalty: 0.5 };
    const drawnAlone = await ask(kTopics[0], drawn);
    const given = new AbortController();
    const abandoned = fetch(`${server.origin}/v1/chat/completions`, {
      method: "POST", signal: given.signal,
      body: JSON.stringify(requestOf(kTopics[3], { stream: true, max_tokens: 60 })),
    }).then((response) => response.body.getReader().read()).then(() => given.abort());
    const [first, second, third] = await Promise.all([
      ask(kTopics[0], drawn), ask(kTopics[1], { max_tokens: 3 }),
      stream(server.origin, requestOf(kTopics[2]), () => undefined), abandoned,
    ]);
    assert.equal(first, drawnAlone);
    assert.ok(alone[1].startsWith(second) && second.length < alone[1].length, second);
    assert.equal(third.text, alone[2]);
    assert.doesNotMatch(server.output, /closed: (?!it left)/);
  } catch (error) {
    error.stack += `\nThe worker said:\n${worker.output}`;
    error.stack += `\nThe server said:\n${server.output.slice(-4000)}`;
    throw error;
  } finally {
    worker.child.kill("SIGKILL");
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
