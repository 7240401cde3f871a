// OpenAI's own client against a model that calls tools and thinks, as it is told to by its weights.
import assert from "node:assert/strict";
import { test } from "node:test";

import { npm, withScripted } from "./lib/clients.mjs";
import { inOrder } from "./lib/scripted_model.mjs";
import { reasonToSkip } from "./lib/weft.mjs";

const skip = reasonToSkip();

const kTools = [{
  type: "function",
  function: {
    name: "get_weather", description: "The weather.",
    parameters: { type: "object", properties: { city: { type: "string" } } },
  },
}];
const kQuestion = {
  model: "scripted", temperature: 0, tools: kTools,
  messages: [{ role: "user", content: "How warm is it?" }],
};

// <tool_call> and </think> are control tokens, as some families have them, so that their text would
// be lost with them.
const withModel = (follows, body) => withScripted(
  { follows, special: ["<tool_call>", "</tool_call>", "</think>", "<|behind_tool|>"] },
  async ({ origin }) => {
    const { default: OpenAI } = await npm("openai");
    await body(new OpenAI({ baseURL: `${origin}/v1`, apiKey: "none", maxRetries: 0 }));
  });

const kCalls = {
  "<|behind_tool|>": "<think>",
  ...inOrder("<|begin|>", ["<think>", "Who ", "asks", "</think>", "So ", "be it. ",
    "<tool_call>", "{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": ", "\"Zürich\"}}",
    "</tool_call>"]),
};

test("calls and thoughts, whole and in a stream", { skip }, () => withModel(kCalls,
  async (client) => {
    const { choices: [choice], usage } = await client.chat.completions.create(kQuestion);
    assert.equal(choice.finish_reason, "tool_calls");
    assert.equal(choice.message.content, "So be it.");
    assert.equal(choice.message.reasoning_content, "Who asks");
    assert.equal(choice.message.tool_calls.length, 1);
    const [call] = choice.message.tool_calls;
    assert.equal(call.type, "function");
    assert.equal(call.function.name, "get_weather");
    assert.deepEqual(JSON.parse(call.function.arguments), { city: "Zürich" });
    assert.equal(usage.completion_tokens, 11);

    // The client puts the deltas together itself.
    const stream = client.chat.completions.stream(kQuestion);
    const whole = (await stream.finalChatCompletion()).choices[0];
    assert.equal(whole.finish_reason, "tool_calls");
    assert.equal(whole.message.content, "So be it.");
    assert.equal(whole.message.tool_calls[0].function.name, "get_weather");
    assert.deepEqual(JSON.parse(whole.message.tool_calls[0].function.arguments),
      { city: "Zürich" });

    // The next turn takes the message as it came, with what the tool said.
    const messages = [...kQuestion.messages, choice.message,
      { role: "tool", tool_call_id: call.id, content: "21 degrees" }];
    const next = await client.chat.completions.create({ ...kQuestion, messages });
    assert.equal(next.choices[0].finish_reason, "tool_calls");

    const unread = await client.chat.completions.create({ ...kQuestion, tool_choice: "none" });
    assert.equal(unread.choices[0].finish_reason, "stop");
    assert.match(unread.choices[0].message.content, /^So be it\. <tool_call>/);
  }));

// The client itself runs the function and asks again, until there is an answer without a call:
// here there is none, so that its limit ends it.
test("the client's own loop of tools calls the function", { skip }, () => withModel(kCalls,
  async (client) => {
    const cities = [];
    const runner = client.chat.completions.runTools({
      ...kQuestion,
      tools: [{ type: "function", function: {
        ...kTools[0].function, parse: JSON.parse,
        function: ({ city }) => { cities.push(city); return "21 degrees"; },
      } }],
    }, { maxChatCompletions: 3 });
    await runner.done();
    assert.deepEqual(cities, ["Zürich", "Zürich", "Zürich"]);
  }));

// What is demanded of the answer comes, whatever the model would have said.
const kHeld = [{
  type: "function",
  function: {
    name: "get_weather", description: "The weather.",
    parameters: {
      type: "object", required: ["city"], additionalProperties: false,
      properties: { city: { type: "string", enum: ["Bern", "Zürich"] } },
    },
  },
}, {
  type: "function",
  function: {
    name: "now", description: "The time.",
    parameters: { type: "object", properties: {}, additionalProperties: false },
  },
}];

test("a call that must come comes, and fits its schema", { skip }, () => withModel(
  inOrder("<|begin|>", ["No", "thing."]),
  async (client) => {
    const asked = { ...kQuestion, tools: kHeld, parallel_tool_calls: false, max_tokens: 300,
      enable_thinking: false };
    const said = await client.chat.completions.create(asked);
    assert.equal(said.choices[0].message.content, "Nothing.");

    for (const choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
      const { choices: [{ message, finish_reason }] } = await client.chat.completions.create(
        { ...asked, tools: choice === "required" ? [kHeld[0]] : kHeld, tool_choice: choice });
      assert.equal(finish_reason, "tool_calls");
      assert.equal(message.tool_calls[0].function.name, "get_weather");
      const { city, ...others } = JSON.parse(message.tool_calls[0].function.arguments);
      assert.ok(["Bern", "Zürich"].includes(city), city);
      assert.deepEqual(others, {});
    }
    // Whether they are read or stay text.
    const unread = await client.chat.completions.create({ ...asked, parse_tool_calls: false,
      tool_choice: { type: "function", function: { name: "now" } } });
    assert.match(unread.choices[0].message.content, /^\s*<tool_call>\n\{"name": "now"/);

    const stream = client.chat.completions.stream(
      { ...asked, tool_choice: { type: "function", function: { name: "now" } } });
    const { message } = (await stream.finalChatCompletion()).choices[0];
    assert.deepEqual(message.tool_calls.map(({ function: { name, arguments: given } }) =>
      [name, given]), [["now", "{}"]]);

    await assert.rejects(client.chat.completions.create({
      ...asked, tool_choice: { type: "function", function: { name: "get_rain" } },
    }), (error) => error.status === 400 && error.param === "tool_choice" &&
      /get_weather, now/.test(error.message));
    await assert.rejects(client.chat.completions.create({
      ...asked, tool_choice: "required", response_format: { type: "json_object" },
    }), (error) => error.status === 400 && error.param === "tool_choice");
  }));

test("calls of strict tools fit their schemas", { skip }, () => withModel(
  inOrder("<|begin|>", ["Well. ", "<tool_call>", "{\"name\": \"get_rain\", ",
    "\"arguments\": {}}", "</tool_call>"]),
  async (client) => {
    const asked = { ...kQuestion, tools: kHeld, parallel_tool_calls: false, max_tokens: 300 };
    const called = async (tools) => (await client.chat.completions.create({ ...asked, tools }))
      .choices[0].message;
    assert.equal((await called(kHeld)).tool_calls[0].function.name, "get_rain");
    const strict = await called(kHeld.map((tool) =>
      ({ ...tool, function: { ...tool.function, strict: true } })));
    assert.equal(strict.content, "Well.");
    const { name, arguments: given } = strict.tool_calls[0].function;
    assert.ok(["get_weather", "now"].includes(name), name);
    assert.ok(name === "now" || ["Bern", "Zürich"].includes(JSON.parse(given).city), given);

    const open = [{ type: "function", function: { ...kHeld[0].function, strict: true,
      parameters: { type: "object", properties: { city: { type: "string",
        pattern: "\\bB" } } } } }];
    await assert.rejects(called(open), (error) => error.status === 400 &&
      error.param === "tools[0].function" && /#\/properties\/city\/pattern/.test(error.message));
  }));

// Thoughts that go in a circle end where the request says, and the answer follows what ended them.
test("thoughts end behind max_thinking_tokens", { skip }, () => withModel(
  { "<|begin|>": "<think>", "<think>": "hm ", "hm ": "and ", "and ": "hm ", "\n": "Done",
    "Done": "<|end|>" },
  async (client) => {
    for (const limit of [0, 1, 5, 12]) {
      const { choices: [choice], usage } = await client.chat.completions.create(
        { ...kQuestion, max_thinking_tokens: limit });
      assert.equal(choice.finish_reason, "stop");
      assert.equal(choice.message.content, "Done");
      const thoughts = choice.message.reasoning_content ?? "";
      assert.equal(thoughts, "hm and ".repeat(6).split(" ").slice(0, limit).join(" "));
      // <think>, the thoughts, \n</think>\n\n, Done
      assert.equal(usage.completion_tokens, 1 + limit + 4 + 1);
    }
    const cut = await client.chat.completions.create(
      { ...kQuestion, max_thinking_tokens: 5, max_tokens: 7 });
    assert.equal(cut.choices[0].finish_reason, "length");
  }));
