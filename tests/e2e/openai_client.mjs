// OpenAI's own client, unchanged, and its helpers: responses with their events, what they go on
// from, forms and tools; chats with helpers for streams, forms and tools; completions of a text.
import assert from "node:assert/strict";
import { test } from "node:test";

import { npm, withCalls, withStories } from "./lib/clients.mjs";
import { reasonToSkip } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kKey = "0123456789abcdef0123456789abcdef";
const kStory = { model: "weft-tiny", temperature: 0, input: "Where does Mira live?" };
const kWeather = {
  type: "function", name: "get_weather", description: "The weather.", strict: null,
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const kAsked = { model: "scripted", temperature: 0, tools: [kWeather], input: "How warm is it?" };

async function clientOf(origin, options = {}) {
  const { default: OpenAI } = await npm("openai");
  return new OpenAI({ baseURL: `${origin}/v1`, apiKey: "none", maxRetries: 0, ...options });
}

const typesOf = (items) => items.map((item) => item.type);

test("responses, whole and as a stream of typed events", { skip },
  () => withStories(async ({ origin }) => {
    const client = await clientOf(origin);
    const response = await client.responses.create({ ...kStory, metadata: { topic: "Mira" } });
    assert.match(response.id, /^resp_/);
    assert.equal(response.object, "response");
    assert.equal(response.status, "completed");
    assert.equal(response.error, null);
    assert.deepEqual(response.metadata, { topic: "Mira" });
    assert.equal(response.output.length, 1);
    assert.equal(response.output[0].role, "assistant");
    assert.match(response.output_text, /^Mira lives in Spindle Green/);
    assert(response.usage.input_tokens > 5 && response.usage.output_tokens > 3);
    assert.equal(response.usage.total_tokens,
      response.usage.input_tokens + response.usage.output_tokens);

    const events = [];
    for await (const event of await client.responses.create({ ...kStory, stream: true })) {
      assert.equal(event.sequence_number, events.length);
      events.push(event);
    }
    assert.deepEqual(typesOf(events).filter((type) => type !== "response.output_text.delta"), [
      "response.created", "response.in_progress", "response.output_item.added",
      "response.content_part.added", "response.output_text.done", "response.content_part.done",
      "response.output_item.done", "response.completed"]);
    const pieces = events.filter(({ type }) => type === "response.output_text.delta");
    assert(pieces.length > 3, "it comes in pieces");
    assert.equal(pieces.map(({ delta }) => delta).join(""), response.output_text);
    assert.deepEqual({ ...events[0].response, output: [] }, events[0].response);
    assert.equal(events[0].response.status, "in_progress");
    assert.equal(events.at(-1).response.usage.output_tokens, response.usage.output_tokens);

    // The helper puts the events together itself.
    const final = await client.responses.stream(kStory).finalResponse();
    assert.equal(final.output_text, response.output_text);

    const short = await client.responses.create({ ...kStory, max_output_tokens: 3 });
    assert.equal(short.status, "incomplete");
    assert.deepEqual(short.incomplete_details, { reason: "max_output_tokens" });
    assert.equal(short.output[0].status, "incomplete");
    assert.equal(short.usage.output_tokens, 3);
    const likely = await client.responses.create({
      ...kStory, max_output_tokens: 3, top_logprobs: 2, include: ["message.output_text.logprobs"],
    });
    assert.equal(likely.output[0].content[0].logprobs.length, 3);
    assert.equal(likely.output[0].content[0].logprobs[0].top_logprobs.length, 2);
    const count = await client.responses.inputTokens.count({ input: kStory.input });
    assert.equal(count.input_tokens, response.usage.input_tokens);
  }));

test("responses are kept, gone on from and forgotten", { skip },
  () => withStories(async ({ origin }) => {
    const client = await clientOf(origin);
    const first = await client.responses.create({ ...kStory, max_output_tokens: 8 });
    assert.deepEqual(await client.responses.retrieve(first.id), first);
    const second = await client.responses.create({
      ...kStory, input: [{ role: "user", content: "And then?" }], max_output_tokens: 4,
      previous_response_id: first.id,
    });
    assert.equal(second.previous_response_id, first.id);
    // What came before is part of its prompt, as when it is sent in full.
    const sent = await client.responses.create({
      ...kStory, max_output_tokens: 4, store: false,
      input: [{ role: "user", content: kStory.input }, ...first.output,
        { role: "user", content: "And then?" }],
    });
    assert.equal(second.usage.input_tokens, sent.usage.input_tokens);
    assert.equal(second.output_text, sent.output_text);
    const named = await client.responses.create({
      ...kStory, max_output_tokens: 4,
      input: [{ role: "user", content: kStory.input },
        { type: "item_reference", id: first.output[0].id }, { role: "user", content: "And then?" }],
    });
    assert.equal(named.output_text, sent.output_text);

    const listed = await client.responses.inputItems.list(named.id, { order: "asc", limit: 2 });
    assert.deepEqual(listed.data.map(({ role }) => role), ["user", "assistant"]);
    assert.equal(listed.has_more, true);
    const all = [];
    for await (const item of client.responses.inputItems.list(named.id, { limit: 1 })) {
      all.push(item.content[0].text);
    }
    assert.deepEqual([all[0], all.at(-1)], ["And then?", kStory.input]);

    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), { status: 404 });
    await assert.rejects(client.responses.delete(first.id), { status: 404 });
    await assert.rejects(client.responses.retrieve(sent.id), { status: 404 }, "store: false");
    await assert.rejects(
      client.responses.create({ ...kStory, previous_response_id: first.id }),
      { status: 400, param: "previous_response_id", code: "previous_response_not_found" });
    const third = await client.responses.create({
      ...kStory, max_output_tokens: 4, previous_response_id: second.id,
    });
    assert(third.usage.input_tokens > second.usage.input_tokens, "it has the whole conversation");
    await assert.rejects(client.responses.cancel(second.id), { status: 400, param: "background" });
  }));

test("responses of a model that thinks and calls", { skip },
  () => withCalls(async ({ origin }) => {
    const client = await clientOf(origin);
    const response = await client.responses.create(kAsked);
    assert.deepEqual(typesOf(response.output), ["reasoning", "message", "function_call"]);
    const [thoughts, message, call] = response.output;
    assert.deepEqual(thoughts.content, [{ type: "reasoning_text", text: "Who asks" }]);
    assert.equal(message.content[0].text, "Let me look.");
    assert.equal(call.name, "get_weather");
    assert.deepEqual(JSON.parse(call.arguments), { city: "Zürich" });
    assert(response.usage.output_tokens_details.reasoning_tokens >= 2);

    const output = { type: "function_call_output", call_id: call.call_id, output: "21 degrees" };
    const answer = await client.responses.create({
      ...kAsked, previous_response_id: response.id, input: [output],
    });
    assert.equal(answer.output_text, "It is 21 degrees there.");
    const stateless = await client.responses.create({
      ...kAsked, store: false, input: [{ role: "user", content: kAsked.input }, ...response.output,
        output],
    });
    assert.equal(stateless.output_text, answer.output_text);
    assert.equal(stateless.usage.input_tokens, answer.usage.input_tokens);

    const seen = new Set();
    const stream = client.responses.stream(kAsked).on("event", ({ type }) => seen.add(type));
    const final = await stream.finalResponse();
    assert.deepEqual(typesOf(final.output), typesOf(response.output));
    assert.equal(final.output[2].arguments, call.arguments);
    for (const type of ["reasoning_text.delta", "reasoning_text.done",
      "function_call_arguments.delta", "function_call_arguments.done"]) {
      assert(seen.has(`response.${type}`), type);
    }
    seen.clear();
    const told = await client.responses.stream({ ...kAsked, reasoning: { summary: "auto" } })
      .on("event", ({ type }) => seen.add(type)).finalResponse();
    assert.deepEqual(told.output[0].summary, [{ type: "summary_text", text: "Who asks" }]);
    for (const type of ["part.added", "text.delta", "text.done", "part.done"]) {
      assert(seen.has(`response.reasoning_summary_${type}`), type);
    }
    const forced = await client.responses.create({ ...kAsked, tool_choice: "required" });
    assert.equal(forced.output.at(-1).name, "get_weather");
    const silent = await client.responses.create({ ...kAsked, tool_choice: "none" });
    assert.deepEqual(typesOf(silent.output), ["reasoning", "message"]);
  }));

// It sends references to items that are kept, or the items themselves.
test("Vercel's AI SDK over responses", { skip }, () => withCalls(async ({ origin }) => {
  const { createOpenAI } = await npm("@ai-sdk/openai");
  const { generateText, stepCountIs, streamText, tool } = await npm("ai");
  const { z } = await npm("zod");
  const asked = [];
  const question = {
    model: createOpenAI({ baseURL: `${origin}/v1`, apiKey: "none" }).responses("scripted"),
    prompt: kAsked.input, stopWhen: stepCountIs(3), maxRetries: 0,
    tools: { get_weather: tool({
      inputSchema: z.object({ city: z.string() }),
      execute: ({ city }) => (asked.push(city), "21 degrees"),
    }) },
  };
  for (const store of [true, false]) {
    const { text } = await generateText({ ...question, providerOptions: { openai: { store } } });
    assert.equal(text, "It is 21 degrees there.");
  }
  assert.equal(await streamText(question).text, "It is 21 degrees there.");
  assert.deepEqual(asked, ["Zürich", "Zürich", "Zürich"]);
}));

test("forms by zod, of responses and chats", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const { z } = await npm("zod");
  const { zodResponseFormat, zodTextFormat } = await npm("openai/helpers/zod");
  const Animal = z.object({ animal: z.enum(["fox", "owl"]), age: z.number().int() });
  const response = await client.responses.parse({
    ...kStory, max_output_tokens: 60, text: { format: zodTextFormat(Animal, "animal") },
  });
  assert(Animal.parse(response.output_parsed));
  assert.equal(response.text.format.type, "json_schema");
  const object = await client.responses.create({
    ...kStory, max_output_tokens: 60, text: { format: { type: "json_object" } },
  });
  assert.equal(object.output_text[0], "{");
  const chat = await client.chat.completions.parse({
    model: "weft-tiny", temperature: 0, max_tokens: 60,
    messages: [{ role: "user", content: kStory.input }],
    response_format: zodResponseFormat(Animal, "animal"),
  });
  assert.deepEqual(chat.choices[0].message.parsed, response.output_parsed);
}));

test("chats: the helpers for streams, tools and choices", { skip },
  () => withCalls(async ({ origin }) => {
    const client = await clientOf(origin);
    const messages = [{ role: "user", content: kAsked.input }];
    const asked = [];
    const runner = client.chat.completions.runTools({
      model: "scripted", temperature: 0, messages,
      tools: [{ type: "function", function: {
        ...kWeather, type: undefined, strict: undefined, parse: JSON.parse,
        function: ({ city }) => (asked.push(city), "21 degrees"),
      } }],
    });
    assert.equal(await runner.finalContent(), "It is 21 degrees there.");
    assert.deepEqual(asked, ["Zürich"]);

    const stream = client.chat.completions.stream({ model: "scripted", messages, n: 2 });
    const { choices } = await stream.finalChatCompletion();
    assert.deepEqual(choices.map(({ index }) => index), [0, 1]);
    for (const { message, finish_reason: reason } of choices) {
      assert.equal(reason, "stop");
      assert.match(message.content, /^Let me look/);
    }
    const three = await client.chat.completions.create({ model: "scripted", messages, n: 3 });
    assert.equal(three.choices.length, 3);
  }));

test("choices draw apart, as seeds say", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const question = {
    model: "weft-tiny:latest", temperature: 2, seed: 7, max_tokens: 16,
    messages: [{ role: "user", content: "Tell me a story." }],
  };
  const textsOf = async (n) => (await client.chat.completions.create({ ...question, n })).choices
    .map(({ message }) => message.content);
  const texts = await textsOf(3);
  assert.equal(new Set(texts).size, 3);
  assert.deepEqual(await textsOf(3), texts);
  assert.deepEqual(await textsOf(1), texts.slice(0, 1));
}));

test("completions of a text", { skip }, () => withStories(async ({ origin }) => {
  const client = await clientOf(origin);
  const asked = { model: "weft-tiny", prompt: "Once upon a time", max_tokens: 6, temperature: 0 };
  const { choices: [choice] } = await client.completions.create({ ...asked, logprobs: 2 });
  assert.match(choice.text, /^ there was/);
  assert.equal(choice.finish_reason, "length");
  assert.equal(choice.logprobs.tokens.join(""), choice.text);
  assert.equal(choice.logprobs.text_offset.length, 6);
  let text = "";
  for await (const chunk of await client.completions.create({ ...asked, stream: true })) {
    text += chunk.choices[0].text;
  }
  assert.equal(text, choice.text);
  const sixteen = await client.completions.create({ ...asked, max_tokens: undefined });
  assert.equal(sixteen.usage.completion_tokens, 16);
}));

test("refusals by name, and whose responses they are", { skip }, async () => {
  await withStories(async ({ origin }) => {
    const client = await clientOf(origin);
    for (const [param, fields] of [
      ["tools[0].type", { tools: [{ type: "web_search" }] }],
      ["background", { background: true }],
      ["truncation", { truncation: "auto" }],
      ["conversation", { conversation: "conv_1" }],
      ["input[0].content[0]",
        { input: [{ role: "user", content: [{ type: "input_image", image_url: "x" }] }] }],
      ["input[0].type", { input: [{ type: "web_search_call", id: "ws_1" }] }],
      ["input[0]", { input: [{ type: "item_reference", id: "msg_1" }] }],
      ["text.format", { text: { format: { type: "xml" } } }],
    ]) {
      await assert.rejects(client.responses.create({ ...kStory, ...fields }), { param },
        JSON.stringify(fields));
    }
    await assert.rejects(client.responses.create({ ...kStory, model: "gpt-5" }),
      { status: 404, code: "model_not_found" });
    await assert.rejects(client.completions.create({ prompt: ["a", "b"], model: "weft-tiny" }),
      { status: 400, param: "prompt" });
    await assert.rejects(client.embeddings.create({ model: "weft-tiny", input: "a" }),
      { status: 400, param: "model" });
  });
  await withStories(async ({ origin }) => {
    const client = await clientOf(origin, { apiKey: kKey });
    const { id } = await client.responses.create({ ...kStory, max_output_tokens: 2 });
    assert.equal((await client.responses.retrieve(id)).id, id);
    const stranger = await clientOf(origin, { apiKey: "another" });
    await assert.rejects(stranger.responses.retrieve(id), { status: 401 });
  }, { environment: { WEFT_API_KEY: kKey } });
});
