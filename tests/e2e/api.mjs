// The API over weft itself, as clients see it: OpenAI's own client, and who is answered at all.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

import { eventually, packageOf, reasonToSkip, root, serve, swarmOf } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const require = createRequire(join(root, "web/package.json"));
const kKey = "0123456789abcdef0123456789abcdef";
const kQuestion = {
  model: "weft-tiny",
  messages: [{ role: "user", content: "Tell me a story." }],
  temperature: 0,
  max_tokens: 4,
};

async function clientOf(origin, apiKey = "none") {
  const { default: OpenAI } = await import(require.resolve("openai"));
  return new OpenAI({ baseURL: `${origin}/v1`, apiKey, maxRetries: 0 });
}

async function withServer(args, environment, body) {
  const server = await serve(packageOf("weft-tiny"), args, environment);
  try {
    await body(server);
  } finally {
    await server.stop();
  }
}

test("OpenAI's client: models, answers, and refusals by name", { skip }, () =>
  withServer(["--threads", "1"], {}, async ({ origin }) => {
    await eventually(async () => assert.equal((await swarmOf(origin)).state, "up"));
    const client = await clientOf(origin);
    assert.equal((await client.models.list()).data[0].id, "weft-tiny");
    assert.equal((await client.models.retrieve("weft-tiny")).id, "weft-tiny");
    await assert.rejects(client.models.retrieve("gpt"), { status: 404, code: "model_not_found" });
    const answer = await client.chat.completions.create(kQuestion);
    assert.equal(answer.usage.completion_tokens, 4);
    for (const [param, value] of [
      ["response_format", { type: "xml" }],
      ["tool_choice", "any"],
      ["functions", [{ name: "f" }]],
      ["reasoning_effort", "low"],
      ["n", 9],
    ]) {
      await assert.rejects(client.chat.completions.create({ ...kQuestion, [param]: value }),
        { status: 400, param });
    }
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
    await assert.rejects(client.chat.completions.create({
      ...kQuestion, messages: [{ role: "user", content: [image] }],
    }), { status: 400, param: "messages[0].content" });

    const ask = async (path) => (await fetch(origin + path)).json();
    const [worker] = (await swarmOf(origin)).workers;
    assert.ok(worker.bytes_sent > 0 && worker.bytes_received > 0);
    const own = await ask(`/worker/state?name=${encodeURIComponent(worker.name)}`);
    assert.deepEqual(own.devices, [{ state: "active", check: "trusted", problem: "" }]);
    await eventually(async () => {
      const { levels } = await ask("/api/swarm/history");
      assert.deepEqual(levels.map(({ step_s }) => step_s), [10, 300]);
      assert.ok(levels.every((level) => level.tokens_per_s.some((rate) => rate > 0)));
      assert.ok(levels.every((level) => level.devices.at(-1) <= 1 && level.up.at(-1) <= 1));
    });
    const laptop = await ask(`/api/swarm/what-if?memory_bytes=${8 * 2 ** 30}`);
    assert.ok(laptop.now.runs && laptop.with.runs && laptop.with.predicted_us_per_token > 0);
    const refused = await fetch(`${origin}/api/swarm/what-if?memory_bytes=8GB`);
    assert.equal(refused.status, 400);
  }));

test("a swarm that stays down is a 503, also of a stream", { skip }, () =>
  withServer(["--no-worker", "--wait", "1"], {}, async ({ origin }) => {
    const client = await clientOf(origin);
    for (const stream of [false, true]) {
      await assert.rejects(client.chat.completions.create({ ...kQuestion, stream }),
        (error) => error.status === 503 && Number(error.headers.get("retry-after")) > 0 &&
          /did not come up within 1 s/.test(error.message));
    }
    assert.equal((await swarmOf(origin)).queued_requests, 0);
  }));

test("a full queue is a 503, also of a stream", { skip }, () =>
  withServer(["--no-worker", "--queue", "0"], {}, async ({ origin }) => {
    const client = await clientOf(origin);
    await assert.rejects(client.chat.completions.create({ ...kQuestion, stream: true }),
      { status: 503 });
  }));

test("a key that is set counts on loopback, and a name demands one", { skip }, async () => {
  await withServer(["--no-worker"], { WEFT_API_KEY: kKey }, async ({ origin }) => {
    for (const path of ["/v1/models", "/api/swarm", "/api/swarm/history",
      "/api/swarm/what-if", "/metrics", "/package/weft.json", "/worker/state?name=a"]) {
      assert.equal((await fetch(origin + path)).status, 401, path);
    }
    const client = await clientOf(origin, kKey);
    assert.equal((await client.models.list()).data.length, 1);
  });
  await withServer(["--no-worker", "--host-name", "weft.example"], {}, async (server) => {
    assert.equal((await fetch(`${server.origin}/v1/models`)).status, 401);
    const [, key] = await server.waitFor(/API key:\s+([0-9a-f]{32})\s/);
    const headers = { Authorization: `bearer ${key}` };
    assert.equal((await fetch(`${server.origin}/v1/models`, { headers })).status, 200);
  });
});

test("without a key another user of the machine is not answered",
  { skip: skip || (process.getuid() !== 0 && "only root can become another user") }, () =>
    withServer(["--no-worker"], {}, async ({ origin }) => {
      const statusOf = (path, options) => Number(execFileSync(process.execPath,
        ["-e", `fetch(${JSON.stringify(origin + path)})
          .then((response) => console.log(response.status))`],
        { encoding: "utf8", cwd: "/", ...options }));
      assert.equal(statusOf("/api/swarm", {}), 200);
      const stranger = { uid: 65534, gid: 65534 };
      for (const path of ["/api/swarm", "/v1/models", "/package/weft.json", "/probe?bytes=1"]) {
        assert.equal(statusOf(path, stranger), 403, path);
      }
      assert.equal(statusOf("/healthz", stranger), 200);
    }));

test("errors are JSON whatever is wrong", { skip }, () =>
  withServer(["--no-worker"], {}, async ({ origin }) => {
    for (const [status, path, options] of [
      [404, "/v1/nothing", {}],
      [404, "/package/blobs/00", {}],
      [405, "/v1/chat/completions", {}],
      [403, "/v1/models", { headers: { Origin: "https://evil.example" } }],
      [403, "/v1/models", { headers: { "Sec-Fetch-Site": "cross-site" } }],
      [426, "/worker", {}],
    ]) {
      const response = await fetch(origin + path, options);
      assert.equal(response.status, status, path);
      assert.equal(typeof (await response.json()).error.message, "string", path);
    }
  }));
