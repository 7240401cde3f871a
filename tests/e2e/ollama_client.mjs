// Ollama's own client, unchanged: chats and prompts, whole and as lines, tools, thoughts, forms,
// what it asks of models, and what is not there.
import assert from "node:assert/strict";
import { test } from "node:test";

import { npm, withCalls, withStories } from "./lib/clients.mjs";
import { eventually, packageOf, reasonToSkip, serve, swarmOf } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kKey = "0123456789abcdef0123456789abcdef";
const options = { temperature: 0, num_predict: 60 };
// Frozen, because the client writes into what it is given.
const kQuestion = Object.freeze({
  model: "weft-tiny", options, messages: [{ role: "user", content: "Where does Mira live?" }],
});
const kMira = /^Mira lives in Spindle Green/;
const kWeather = {
  type: "function",
  function: { name: "get_weather", description: "The weather.",
    parameters: { type: "object", properties: { city: { type: "string" } } } },
};

async function clientOf(host, headers) {
  const { Ollama } = await npm("ollama");
  return new Ollama({ host, headers });
}

async function linesOf(stream) {
  const lines = [];
  for await (const line of stream) lines.push(line);
  return lines;
}

function checkEnd(end, reason = "stop") {
  assert.equal(end.done, true);
  assert.equal(end.done_reason, reason);
  assert(end.prompt_eval_count > 5 && end.eval_count > 0, JSON.stringify(end));
  const times = ["load_duration", "prompt_eval_duration", "eval_duration"].map((name) => end[name]);
  assert(times.every((time) => Number.isInteger(time) && time >= 0), times.join());
  assert.equal(end.total_duration, times[0] + times[1] + times[2]);
  assert(Math.abs(Date.parse(end.created_at) - Date.now()) < 60_000, end.created_at);
}

test("chats and prompts, whole and as lines", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const whole = await client.chat({ ...kQuestion });
  assert.equal(whole.model, "weft-tiny");
  assert.equal(whole.message.role, "assistant");
  assert.match(whole.message.content, kMira);
  checkEnd(whole);

  const lines = await linesOf(await client.chat({ ...kQuestion, stream: true }));
  assert(lines.length > 4, "it comes in pieces");
  assert.equal(lines.map((line) => line.message.content).join(""), whole.message.content);
  assert(lines.slice(0, -1).every((line) => line.done === false));
  checkEnd(lines.at(-1));
  assert.equal(lines.at(-1).eval_count, whole.eval_count);

  const asked = { model: "weft-tiny", prompt: kQuestion.messages[0].content, options };
  const answer = await client.generate(asked);
  assert.equal(answer.response, whole.message.content);
  checkEnd(answer);
  const pieces = await linesOf(await client.generate({ ...asked, stream: true }));
  assert.equal(pieces.map((line) => line.response).join(""), answer.response);

  // As it is: the model goes on with the text.
  const raw = await client.generate({ ...asked, prompt: "Mira lives in", raw: true,
    options: { temperature: 0, num_predict: 5 } });
  assert.match(raw.response, /^ Spindle Green/);
  checkEnd({ ...raw, prompt_eval_count: raw.prompt_eval_count + 5 }, "length");
  assert.equal(raw.eval_count, 5);
}));

test("a stream is what a request without a word gets", { skip }, () => withStories(
  async ({ origin }) => {
    const response = await fetch(`${origin}/api/chat`,
      { method: "POST", body: JSON.stringify(kQuestion) });
    assert.equal(response.headers.get("content-type"), "application/x-ndjson");
    const lines = (await response.text()).split("\n");
    assert.equal(lines.pop(), "");
    assert(lines.length > 4);
    assert.equal(JSON.parse(lines.at(-1)).done, true);
    const body = { ...kQuestion, stream: false, options: { ...options, stop: "Spindle" } };
    const stopped = await (await fetch(`${origin}/api/chat`,
      { method: "POST", body: JSON.stringify(body) })).json();
    assert.equal(stopped.message.content, "Mira lives in ");
  }));

test("tools and thoughts, whole and as lines", { skip }, () => withCalls(async ({ origin }) => {
  const client = await clientOf(origin);
  const asked = { model: "scripted", tools: [kWeather], options: { temperature: 0 }, think: true,
    messages: [{ role: "user", content: "How warm is it?" }] };
  const { message, done_reason: reason } = await client.chat(asked);
  assert.equal(reason, "stop");
  assert.equal(message.thinking, "Who asks");
  assert.equal(message.content, "Let me look.");
  assert.equal(message.tool_calls.length, 1);
  assert.equal(message.tool_calls[0].function.name, "get_weather");
  assert.deepEqual(message.tool_calls[0].function.arguments, { city: "Zürich" });

  const lines = await linesOf(await client.chat({ ...asked, stream: true }));
  assert.equal(lines.map((line) => line.message.content).join(""), message.content);
  assert.equal(lines.map((line) => line.message.thinking ?? "").join(""), message.thinking);
  const calls = lines.flatMap((line) => line.message.tool_calls ?? []);
  assert.deepEqual(calls.map((call) => call.function), message.tool_calls.map((c) => c.function));

  // The message goes back as it came, and what the tool said behind it.
  const answer = await client.chat({ ...asked, messages: [...asked.messages, message,
    { role: "tool", tool_name: "get_weather", content: "21 degrees" }] });
  assert.equal(answer.message.content, "It is 21 degrees there.");

  const quiet = await client.chat({ ...asked, think: false });
  assert.equal(quiet.message.thinking, undefined);
  assert.equal(quiet.message.content, "Let me look.");
}));

test("an answer has the form of a schema, or is an object", { skip }, () => withStories(
  async ({ origin }) => {
    const client = await clientOf(origin);
    const { z } = await npm("zod");
    const Animal = z.object({ animal: z.enum(["fox", "owl"]), legs: z.number().int() });
    const { message } = await client.chat({ ...kQuestion, format: z.toJSONSchema(Animal) });
    Animal.parse(JSON.parse(message.content));
    const { response } = await client.generate({ model: "weft-tiny", prompt: "An object.",
      format: "json", options: { ...options, num_predict: 30 } });
    assert.match(response, /^\{/);
  }));

test("what a model is asked for beside answers", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
  const { models: [model] } = await client.list();
  assert.equal(model.name, "weft-tiny");
  assert.match(model.digest, /^[0-9a-f]{64}$/);
  assert(model.size > 1e6);
  assert(Date.parse(model.modified_at) > Date.parse("2025-01-01"));
  assert.equal(model.details.family, "qwen3");
  assert.equal(model.details.quantization_level, "f16");
  for (const name of ["weft-tiny", "weft-tiny:latest"]) {
    const shown = await client.show({ model: name });
    assert(shown.capabilities.includes("completion"));
    assert.equal(shown.model_info["general.architecture"], "qwen3");
    assert.equal(shown.model_info["qwen3.context_length"], 4096);
    assert.equal(shown.model_info["qwen3.block_count"], 8);
    assert.match(shown.template, /im_start/);
    assert.deepEqual(shown.details, model.details);
  }
  const { models: [running] } = await client.ps();
  assert.equal(running.name, "weft-tiny");
  assert(running.size > 1e6);
  assert.equal(running.size_vram, 0);
  assert(Date.parse(running.expires_at) > Date.now());

  // Clients load a model, and put it away, by asking it nothing.
  assert.equal((await client.generate({ model: "weft-tiny", prompt: "" })).done_reason, "load");
  assert.equal((await client.chat({ model: "weft-tiny", messages: [], keep_alive: 0 })).done_reason,
    "unload");
  assert.match((await client.chat({ ...kQuestion })).message.content, kMira);
}));

test("refusals are the client's own errors, and name what it was", { skip }, () => withStories(
  async ({ origin }) => {
    const client = await clientOf(origin, { Authorization: `Bearer ${kKey}` });
    const refused = async (asked, status, message) =>
      await assert.rejects(asked, (error) => {
        assert.equal(error.name, "ResponseError");
        assert.equal(error.status_code, status);
        assert.match(error.message, message);
        return true;
      });
    const image = { role: "user", content: "What is it?", images: ["AA=="] };
    await refused(client.chat({ ...kQuestion, messages: [image] }), 400,
      /'messages\[0\]\.images'/);
    await refused(client.chat({ ...kQuestion, stream: true, options: { mirostat: 1 } }), 400,
      /'options\.mirostat'/);
    await refused(client.generate({ model: "weft-tiny", prompt: "x", suffix: "y" }), 400,
      /'suffix'/);
    await refused(client.chat({ ...kQuestion, model: "llama3" }), 404, /no model 'llama3'/);
    await refused(client.show({ model: "llama3" }), 404, /no model 'llama3'/);
    await refused(client.embed({ model: "weft-tiny", input: "x" }), 400, /makes no embeddings/);
    await refused(client.pull({ model: "llama3" }), 501, /weft pull/);
    await refused(client.delete({ model: "weft-tiny" }), 501, /weft rm/);
    const stranger = await clientOf(origin);
    await refused(stranger.chat({ ...kQuestion }), 401, /API key/);
    await refused(stranger.list(), 401, /API key/);
    assert.match((await client.chat({ ...kQuestion })).message.content, kMira);
  }, { environment: { WEFT_API_KEY: kKey } }));

test("a swarm that stays down is a 503, and no model runs", { skip }, async () => {
  const server = await serve(packageOf("weft-tiny"), ["--no-worker", "--wait", "1"]);
  try {
    const client = await clientOf(server.origin);
    for (const stream of [false, true])
      await assert.rejects(client.chat({ ...kQuestion, stream }),
        { status_code: 503, message: /did not come up/ });
    assert.deepEqual((await client.ps()).models, []);
    assert.equal((await client.list()).models.length, 1);
  } finally {
    await server.stop();
  }
});

test("an answer that is aborted ends", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const stream = await client.chat({ ...kQuestion, stream: true, options: { num_predict: 2000 },
    messages: [{ role: "user", content: "Tell me a story about a fox." }] });
  await assert.rejects(async () => {
    for await (const line of stream) if (line.message.content !== "") client.abort();
  }, { name: "AbortError" });
  await eventually(async () => assert.equal((await swarmOf(origin)).active_requests, 0));
}));
