// One headless worker that holds a whole model with recurrent layers makes its tokens ahead, of
// several conversations in one batch: each gets what the native engine gives, also where it ends
// within a batch, goes on, or is given up.
import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { checkpoints, packageOfTwin } from "./lib/twins.mjs";
import { complete, eventually, gpuWorker, noDawn, serve, swarmOf } from "./lib/weft.mjs";

const skip = (existsSync(checkpoints) ? false : `there is no ${checkpoints}`) || noDawn();
const kOptions = ["--context", "256", "--sessions", "4"];
const kTalks = ["The loom goes to and fro.", "A boat.", "Two brothers went out.", "An apple"];

function requestOf(messages, change = {}) {
  return { model: "qwen3_5", max_tokens: 21, temperature: 0, messages, ...change };
}

const said = (content) => [{ role: "user", content }];

async function ask(server, messages, change) {
  const { choices: [choice] } = await complete(server.origin, requestOf(messages, change));
  return { text: choice.message.content, reason: choice.finish_reason };
}

// Steps that the server asked for.
async function framesSent(server) {
  const text = await (await fetch(`${server.origin}/metrics`)).text();
  return Number(/^weft_frames_sent_total (\S+)$/m.exec(text)?.[1] ?? NaN);
}

// What everybody is told: alone, with an end in the middle, and in a second turn.
async function everything(server, together) {
  const each = (change) => kTalks.map((talk) => () => ask(server, said(talk), change));
  const answers = [];
  const run = async (all) => {
    if (together) answers.push(...(await Promise.all(all.map((one) => one()))));
    else for (const one of all) answers.push(await one());
  };
  await run(each());
  // A text in the middle of the first answer ends it there, whoever makes it.
  const stop = answers[0].text.slice(6, 8);
  await run(each({ stop: [stop], max_tokens: 40 }));
  const turns = kTalks.map((talk, i) => [
    ...said(talk), { role: "assistant", content: answers[i].text }, ...said("And then?"),
  ]);
  await run(turns.map((turn) => () => ask(server, turn)));
  await run([() => ask(server, said(kTalks[1]), { temperature: 0.8, seed: 5, top_p: 0.9 })]);
  return answers;
}

test("tokens of a recurrent model come ahead", { skip, timeout: 300_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "weft-recurrent-"));
  const twin = packageOfTwin(folder, "qwen3_5");
  const native = await serve(twin, kOptions);
  const expected = await everything(native, false).finally(() => native.stop());
  assert.ok(new Set(expected.map(({ text }) => text)).size > 6, JSON.stringify(expected));

  const server = await serve(twin, [...kOptions, "--no-worker"]);
  const args = ["--cache", join(folder, "cache"), "--memory", "600MiB"];
  const worker = gpuWorker(server.origin, args);
  try {
    await eventually(async () => {
      const { state, stages } = await swarmOf(server.origin);
      assert.deepEqual([state, stages.length], ["up", 1]);
    }, 120_000);
    assert.deepEqual(await everything(server, false), expected);
    assert.deepEqual(await everything(server, true), expected);

    // Given up in the middle, and asked for again.
    const given = new AbortController();
    await fetch(`${server.origin}/v1/chat/completions`, {
      method: "POST", signal: given.signal,
      body: JSON.stringify(requestOf(said(kTalks[0]), { stream: true, max_tokens: 120 })),
    }).then((response) => response.body.getReader().read()).then(() => given.abort());
    assert.deepEqual(await ask(server, said(kTalks[0])), expected[0]);

    // A prompt takes steps, and so would every token that is asked for by itself.
    const before = await framesSent(server);
    assert.deepEqual(await ask(server, said(kTalks[3])), expected[3]);
    const frames = (await framesSent(server)) - before;
    assert.ok(frames < 12, `${frames} steps for 21 tokens`);
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
