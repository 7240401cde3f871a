// Two servers of different models on one port, one after the other: each finds again what it noted,
// whoever served in between.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { eventually, packageOf, reasonToSkip, serve, swarmOf } from "./lib/weft.mjs";

const kServer = ["--context", "256", "--sessions", "3", "--threads", "1"];
const kBody = {
  messages: [{ role: "user", content: "Tell me a story about a fox and a lantern." }],
  temperature: 1, // without a seed: two runs of their own would differ
  ignore_eos: true,
  max_tokens: 40,
};
const kPrefix = { messages: [{ role: "system", content: "You tell short stories.".repeat(8) }] };

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function send(origin, method, path, body, headers = {}) {
  const response = await fetch(`${origin}${path}`, { method, body: body && JSON.stringify(body),
    headers: { "Content-Type": "application/json", ...headers } });
  return { status: response.status, json: await response.json() };
}

async function answerOf(origin, key, body = kBody) {
  return await send(origin, "POST", "/v1/chat/completions", body, { "Idempotency-Key": key });
}

async function textOf(origin, key) {
  const { status, json } = await answerOf(origin, key);
  assert.equal(status, 200, JSON.stringify(json));
  return json.choices[0].message.content;
}

// Serves `model`, does body(origin) and stops the server in good order. `where` names the journal
// and the folder of state.
async function serving(model, { args, environment }, body) {
  const server = await serve(packageOf(model), [...kServer, ...args], environment);
  try {
    await eventually(async () => {
      const { state, message } = await swarmOf(server.origin);
      assert.equal(state, "up", message);
    });
    return await body(server.origin);
  } catch (error) {
    error.stack += `\nThe server of ${model} said:\n${server.output}`;
    throw error;
  } finally {
    await server.stop();
  }
}

// The first visit of a model leaves these records.
async function leaveRecords(origin) {
  const text = await textOf(origin, "the-key");
  const kept = await send(origin, "PUT", "/v1/prefixes/teller", kPrefix);
  assert.equal(kept.json.status, "kept", JSON.stringify(kept.json));
  return { text, bindings: await bindingsOf(origin) };
}

async function bindingsOf(origin) {
  return (await swarmOf(origin)).stages.map(({ binding }) => binding);
}

async function findRecords(origin, before) {
  assert.equal(await textOf(origin, "the-key"), before.text, "the seed of the key is lost");
  const refused = await answerOf(origin, "the-key", { ...kBody, max_tokens: 5 });
  assert.equal(refused.status, 422, JSON.stringify(refused.json));
  assert.equal(refused.json.error.code, "idempotency_key_reused");
  const { json } = await send(origin, "GET", "/v1/prefixes");
  assert.deepEqual(json.data.map(({ id }) => id), ["teller"], "the kept prefix is lost");
  // Numbers of bindings are given out once, also by the next server.
  const used = Math.max(...before.bindings);
  for (const binding of await bindingsOf(origin))
    assert.ok(binding > used, `${binding} was given out before (${used}): no placement is known`);
}

function twoModelsTest(name, argsOf) {
  const skip = reasonToSkip("weft-tiny", "weft-tiny-moe");
  test(name, { skip, timeout: 120_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "weft-two-models-"));
    const args = ["--port", String(await freePort()), ...argsOf(folder)];
    const where = { args, environment: { XDG_STATE_HOME: folder } };
    try {
      const first = await serving("weft-tiny", where, leaveRecords);
      const second = await serving("weft-tiny-moe", where, leaveRecords);
      assert.notEqual(second.text, first.text);
      await serving("weft-tiny", where, (origin) => findRecords(origin, first));
      await serving("weft-tiny-moe", where, (origin) => findRecords(origin, second));
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

twoModelsTest("two models take turns on one port, and neither loses its records", () => []);

twoModelsTest("two models take turns with one journal that is named, and neither loses its records",
  (folder) => ["--journal", join(folder, "journal")]);
