// Anthropic's own client, unchanged, against /v1/messages: answers, streams, tools and its loop
// over them, forms, counts and errors.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { npm, withCalls, withStories } from "./lib/clients.mjs";
import { eventually, packageOf, reasonToSkip, serve, swarmOf, weft } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kKey = "0123456789abcdef0123456789abcdef";
const kQuestion = {
  model: "weft-tiny", max_tokens: 40, temperature: 0,
  messages: [{ role: "user", content: "Where does Mira live?" }],
};
const kWeather = {
  name: "get_weather", description: "The weather.",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const kAsked = {
  model: "scripted", max_tokens: 100, tools: [kWeather],
  messages: [{ role: "user", content: "How warm is it?" }],
};

async function clientOf(origin, options = {}) {
  const { default: Anthropic } = await npm("@anthropic-ai/sdk");
  return new Anthropic({ baseURL: origin, apiKey: "none", maxRetries: 0, ...options });
}

test("messages, whole and as a stream", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const message = await client.messages.create(kQuestion);
  assert.match(message.id, /^msg_/);
  assert.equal(message.role, "assistant");
  assert.equal(message.stop_reason, "end_turn");
  assert.equal(message.stop_sequence, null);
  assert.equal(message.content.length, 1);
  const [{ type, text }] = message.content;
  assert.equal(type, "text");
  assert.match(text, /^Mira lives in Spindle Green/);
  assert(message.usage.input_tokens + message.usage.cache_read_input_tokens > 5);
  assert(message.usage.output_tokens > 3);

  const names = [];
  for await (const model of client.models.list()) names.push(model.id);
  assert.deepEqual(names, ["weft-tiny"]);
  const model = await client.models.retrieve("weft-tiny");
  assert.equal(model.type, "model");
  assert.equal(model.max_input_tokens, 4096);
  assert(Math.abs(Date.parse(model.created_at) - Date.now()) < 120_000, model.created_at);

  // The helper puts the events together itself.
  const pieces = [];
  const stream = client.messages.stream(kQuestion).on("text", (piece) => pieces.push(piece));
  const final = await stream.finalMessage();
  assert.equal(await stream.finalText(), text);
  assert.equal(pieces.join(""), text);
  assert(pieces.length > 3, "it comes in pieces");
  assert.equal(final.stop_reason, "end_turn");
  assert.equal(final.usage.output_tokens, message.usage.output_tokens);

  const events = [];
  for await (const event of await client.messages.create({ ...kQuestion, stream: true }))
    if (event.type !== events.at(-1)) events.push(event.type);
  assert.deepEqual(events, ["message_start", "content_block_start", "content_block_delta",
    "content_block_stop", "message_delta", "message_stop"]);
}));

test("what ends an answer, and what a system prompt is", { skip }, () => withStories(
  async ({ origin }) => {
    const client = await clientOf(origin);
    const long = await client.messages.create({ ...kQuestion, max_tokens: 2 });
    assert.equal(long.stop_reason, "max_tokens");
    assert.equal(long.usage.output_tokens, 2);
    const stopped = await client.messages.create(
      { ...kQuestion, stop_sequences: ["nowhere", "Spindle"] });
    assert.equal(stopped.stop_reason, "stop_sequence");
    assert.equal(stopped.stop_sequence, "Spindle");
    assert.equal(stopped.content[0].text, "Mira lives in ");

    const count = async (fields) => (await client.messages.countTokens(
      { model: "weft-tiny", messages: kQuestion.messages, ...fields })).input_tokens;
    const plain = await count({});
    const system = [{ type: "text", text: "You tell stories of foxes.",
      cache_control: { type: "ephemeral" } }];
    assert(await count({ system }) > plain);
    const billed = { type: "text", text: "x-anthropic-billing-header: cch=ab12;" };
    assert.equal(await count({ system: [billed, ...system] }), await count({ system }));
    const { usage } = await client.messages.create(kQuestion);
    assert.equal(usage.input_tokens + usage.cache_read_input_tokens, plain);
  }));

test("tools: calls and thoughts are blocks, whole and in a stream", { skip }, () => withCalls(
  async ({ origin }) => {
    const client = await clientOf(origin);
    const asked = { ...kAsked, thinking: { type: "enabled", budget_tokens: 20 } };
    for (const message of [await client.messages.create(asked),
      await client.messages.stream(asked).finalMessage()]) {
      assert.equal(message.stop_reason, "tool_use");
      assert.deepEqual(message.content.map((block) => block.type),
        ["thinking", "text", "tool_use"]);
      const [thinking, text, call] = message.content;
      assert.equal(thinking.thinking, "Who asks");
      assert(thinking.signature.length > 0);
      assert.equal(text.text, "Let me look.");
      assert.match(call.id, /^toolu_/);
      assert.equal(call.name, "get_weather");
      assert.deepEqual(call.input, { city: "Zürich" });
      assert(message.usage.output_tokens_details.thinking_tokens > 0);

      // The next turn takes the blocks as they came.
      const answer = await client.messages.create({ ...asked, messages: [...asked.messages,
        { role: "assistant", content: message.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id,
          content: "21 degrees" }] }] });
      assert.equal(answer.stop_reason, "end_turn");
      assert.equal(answer.content.at(-1).text, "It is 21 degrees there.");
    }
    const hidden = await client.messages.create(
      { ...kAsked, thinking: { type: "adaptive", display: "omitted" } });
    assert.deepEqual(hidden.content.map((block) => block.type), ["text", "tool_use"]);
    const quiet = await client.messages.create({ ...kAsked, thinking: { type: "disabled" } });
    assert.deepEqual(quiet.content.map((block) => block.type), ["text", "tool_use"]);
    const text = await client.messages.create({ ...kAsked, tool_choice: { type: "none" } });
    assert.equal(text.stop_reason, "end_turn");
    assert.match(text.content.at(-1).text, /<tool_call>/);
  }));

test("calls that must come", { skip }, () => withCalls(async ({ origin }) => {
  const client = await clientOf(origin);
  for (const choice of [{ type: "any" }, { type: "tool", name: "get_weather" }]) {
    // Where the model may not say what it would, any letter of a text is as likely as another.
    const message = await client.messages.create({
      ...kAsked, temperature: 0, max_tokens: 200,
      tool_choice: { ...choice, disable_parallel_tool_use: true },
    });
    assert.equal(message.stop_reason, "tool_use");
    const calls = message.content.filter((block) => block.type === "tool_use");
    assert.deepEqual(calls.map((call) => call.name), ["get_weather"]);
    assert.equal(typeof calls[0].input.city, "string");
    assert(!message.content.some((block) => block.type === "text"));
  }
}));

test("the client's own loop runs tools until there is an answer", { skip }, () => withCalls(
  async ({ origin }) => {
    const client = await clientOf(origin);
    const { betaZodTool } = await npm("@anthropic-ai/sdk/helpers/beta/zod");
    const { z } = await npm("zod");
    for (const stream of [false, true]) {
      const cities = [];
      const tool = betaZodTool({
        name: "get_weather", description: "The weather.",
        inputSchema: z.object({ city: z.string() }),
        run: ({ city }) => { cities.push(city); return "21 degrees"; },
      });
      const last = await client.beta.messages.toolRunner(
        { ...kAsked, tools: [tool], stream, max_iterations: 5 }).runUntilDone();
      assert.deepEqual(cities, ["Zürich"]);
      assert.equal(last.content.at(-1).text, "It is 21 degrees there.");
    }
  }));

test("an answer has the form of a schema", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const { zodOutputFormat } = await npm("@anthropic-ai/sdk/helpers/zod");
  const { z } = await npm("zod");
  const Animal = z.object({ animal: z.enum(["fox", "owl"]), legs: z.number().int() });
  const message = await client.messages.parse({ ...kQuestion, max_tokens: 100,
    output_config: { format: zodOutputFormat(Animal) } });
  assert(["fox", "owl"].includes(message.parsed_output.animal), JSON.stringify(message.content));
  assert(Number.isInteger(message.parsed_output.legs));
}));

test("refusals are the client's own errors, and name the field", { skip }, () => withStories(
  async ({ origin }) => {
    const { BadRequestError, NotFoundError, AuthenticationError } = await npm("@anthropic-ai/sdk");
    const client = await clientOf(origin, { apiKey: kKey });
    const refused = async (Kind, fields, message) => {
      for (const stream of [false, true]) {
        const error = await client.messages.create({ ...kQuestion, stream, ...fields })
          .then(() => assert.fail("it was answered"), (reason) => reason);
        assert(error instanceof Kind, `${error}`);
        assert.equal(error.error.type, "error");
        assert.match(error.message, message);
      }
    };
    const image = { type: "image",
      source: { type: "base64", media_type: "image/png", data: "AA" } };
    await refused(BadRequestError, { messages: [{ role: "user", content: [image] }] },
      /'messages\[0\]\.content\[0\]' is a block of type 'image'/);
    await refused(BadRequestError, { max_tokens: 0 }, /'max_tokens' is 0/);
    await refused(BadRequestError, { temperature: 1.5 }, /'temperature' is 1.5/);
    await refused(BadRequestError, { mcp_servers: [{ name: "x" }] }, /'mcp_servers'/);
    const search = { type: "web_search_20250305", name: "web_search" };
    await refused(BadRequestError, { tools: [search] },
      /web_search_20250305/);
    await refused(NotFoundError, { model: "claude" }, /no model 'claude'/);
    await assert.rejects(client.models.retrieve("claude"), (error) =>
      error instanceof NotFoundError && error.type === "not_found_error");
    assert.equal((await client.messages.create(kQuestion)).stop_reason, "end_turn");
    const stranger = await clientOf(origin, { apiKey: "wrong" });
    await assert.rejects(stranger.messages.create(kQuestion), (error) =>
      error instanceof AuthenticationError && error.type === "authentication_error");
    await assert.rejects(stranger.messages.countTokens(kQuestion), AuthenticationError);
  }, { environment: { WEFT_API_KEY: kKey } }));

test("a named key's limits are told in Anthropic's form and Ollama's", { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "weft-limits-"));
  const environment = { XDG_STATE_HOME: folder, WEFT_API_KEY: kKey };
  try {
    await withStories(async ({ origin }) => {
      const apiKey = execFileSync(weft, ["keys", "add", "one", "--per-minute", "2"],
        { encoding: "utf8", env: { ...process.env, ...environment, WEFT_API_KEY: "" } }).trim();
      const { RateLimitError } = await npm("@anthropic-ai/sdk");
      const { Ollama } = await npm("ollama");
      const client = await clientOf(origin, { apiKey });
      await eventually(async () => assert.equal((await client.models.list()).data.length, 1));
      assert.equal((await client.messages.create(kQuestion)).stop_reason, "end_turn");
      const ollama = new Ollama({ host: origin, headers: { "X-Api-Key": apiKey } });
      const { model, messages } = kQuestion;
      assert.equal((await ollama.chat({ model, messages })).done, true);
      await assert.rejects(client.messages.create(kQuestion), (error) =>
        error instanceof RateLimitError && error.type === "rate_limit_error" &&
        Number(error.headers.get("retry-after")) > 1);
      await assert.rejects(ollama.chat({ model, messages }),
        { status_code: 429, message: /minute/ });
    }, { environment });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a swarm that stays down is overloaded", { skip }, async () => {
  const server = await serve(packageOf("weft-tiny"), ["--no-worker", "--wait", "1"]);
  try {
    const { OverloadedError } = await npm("@anthropic-ai/sdk");
    const client = await clientOf(server.origin);
    for (const stream of [false, true])
      await assert.rejects(client.messages.create({ ...kQuestion, stream }), (error) =>
        error instanceof OverloadedError && error.status === 529 &&
        error.type === "overloaded_error" && /did not come up/.test(error.message));
  } finally {
    await server.stop();
  }
});

test("an answer that nobody waits for ends", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const stream = client.messages.stream({ ...kQuestion, max_tokens: 2000,
    messages: [{ role: "user", content: "Tell me a story about a fox." }] });
  await new Promise((resolve) => stream.once("text", resolve));
  stream.abort();
  await assert.rejects(stream.finalMessage());
  await eventually(async () => assert.equal((await swarmOf(origin)).active_requests, 0));
}));
