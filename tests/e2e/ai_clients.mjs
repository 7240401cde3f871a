// Libraries that agents are written with, unchanged, against OpenAI's API of weft: Vercel's ai and
// LangChain.
import assert from "node:assert/strict";
import { test } from "node:test";

import { npm, withCalls, withStories } from "./lib/clients.mjs";
import { reasonToSkip } from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const kMira = "Where does Mira live?";
const kWarm = "How warm is it?";

async function vercelModel(origin, name) {
  const { createOpenAICompatible } = await npm("@ai-sdk/openai-compatible");
  const provider = createOpenAICompatible(
    { name: "weft", baseURL: `${origin}/v1`, includeUsage: true, supportsStructuredOutputs: true });
  return provider(name);
}

async function langChainModel(origin, fields) {
  const { ChatOpenAI } = await npm("@langchain/openai");
  return new ChatOpenAI({
    apiKey: "none", configuration: { baseURL: `${origin}/v1` }, temperature: 0, maxTokens: 100,
    maxRetries: 0, ...fields,
  });
}

test("ai: texts, streams and objects", { skip }, () => withStories(async ({ origin }) => {
  const { generateObject, generateText, streamText } = await npm("ai");
  const { z } = await npm("zod");
  const asked = { model: await vercelModel(origin, "weft-tiny"), temperature: 0, maxRetries: 0,
    maxOutputTokens: 60 };
  const { text, finishReason, usage } = await generateText({ ...asked, prompt: kMira });
  assert.match(text, /^Mira lives in Spindle Green/);
  assert.equal(finishReason, "stop");
  assert(usage.inputTokens > 5 && usage.outputTokens > 3, JSON.stringify(usage));

  const stream = streamText({ ...asked, system: "You tell where people live.", prompt: kMira });
  const pieces = [];
  for await (const piece of stream.textStream) pieces.push(piece);
  assert(pieces.length > 3, "it comes in pieces");
  assert.equal(await stream.finishReason, "stop");
  assert((await stream.usage).outputTokens > 3);

  const { object } = await generateObject({ ...asked, prompt: "Tell me of an animal.",
    schema: z.object({ animal: z.enum(["fox", "owl"]), legs: z.number().int().min(2).max(4) }) });
  assert(["fox", "owl"].includes(object.animal) && [2, 3, 4].includes(object.legs));

  const error = await generateText({ ...asked, prompt: [{ role: "user", content: [
    { type: "image", image: new Uint8Array([137, 80, 78, 71]) }] }] })
    .then(() => assert.fail("it was answered"), (reason) => reason);
  assert.equal(error.statusCode, 400);
  assert.match(error.message, /messages\[0\]\.content/);
}));

test("ai: its loop runs tools, and thoughts come apart", { skip }, () => withCalls(
  async ({ origin }) => {
    const { generateText, stepCountIs, streamText, tool } = await npm("ai");
    const { z } = await npm("zod");
    const model = await vercelModel(origin, "scripted");
    for (const isStream of [false, true]) {
      const cities = [];
      const get_weather = tool({
        description: "The weather.", inputSchema: z.object({ city: z.string() }),
        execute: ({ city }) => { cities.push(city); return "21 degrees"; },
      });
      const asked = { model, prompt: kWarm, temperature: 0, maxRetries: 0, tools: { get_weather },
        stopWhen: stepCountIs(4) };
      const result = isStream ? streamText(asked) : await generateText(asked);
      assert.equal(await result.text, "It is 21 degrees there.");
      const steps = await result.steps;
      assert.equal(steps.length, 2);
      assert.equal(steps[0].finishReason, "tool-calls");
      assert.equal(steps[0].text, "Let me look.");
      assert.equal(steps[0].reasoningText, "Who asks");
      assert.deepEqual(cities, ["Zürich"]);
    }
  }));

test("LangChain: invoke, stream and structured output", { skip }, () => withStories(
  async ({ origin }) => {
    const { z } = await npm("zod");
    const model = await langChainModel(origin, { model: "weft-tiny" });
    const answer = await model.invoke(
      [["system", "You tell where people live."], ["human", kMira]]);
    assert.match(answer.content, /Mira lives/);
    assert.equal(answer.response_metadata.finish_reason, "stop");
    assert(answer.usage_metadata.output_tokens > 3);

    const pieces = [];
    for await (const piece of await model.stream(kMira)) pieces.push(piece);
    assert(pieces.length > 3, "it comes in pieces");
    assert.match(pieces.map((piece) => piece.content).join(""), /^Mira lives in Spindle Green/);
    assert(pieces.some((piece) => piece.usage_metadata?.output_tokens > 3));

    const Animal = z.object({ animal: z.enum(["fox", "owl"]), legs: z.number().int() });
    const writer = model.withStructuredOutput(Animal, { method: "jsonSchema", name: "animal" });
    const object = await writer.invoke("Tell me of an animal.");
    assert(["fox", "owl"].includes(object.animal) && Number.isInteger(object.legs));

    const lost = await langChainModel(origin, { model: "gpt-4o" });
    await assert.rejects(lost.invoke(kMira), (error) => error.status === 404);
  }));

test("LangChain: tools that are bound are called", { skip }, () => withCalls(async ({ origin }) => {
  const { tool } = await npm("@langchain/core/tools");
  const { HumanMessage } = await npm("@langchain/core/messages");
  const { z } = await npm("zod");
  const weather = tool(({ city }) => `21 degrees in ${city}`, {
    name: "get_weather", description: "The weather.", schema: z.object({ city: z.string() }),
  });
  const model = (await langChainModel(origin, { model: "scripted" })).bindTools([weather]);
  const messages = [new HumanMessage(kWarm)];
  const called = await model.invoke(messages);
  assert.equal(called.content, "Let me look.");
  assert.equal(called.response_metadata.finish_reason, "tool_calls");
  assert.equal(called.tool_calls.length, 1);
  assert.deepEqual(called.tool_calls[0].args, { city: "Zürich" });
  const said = await weather.invoke(called.tool_calls[0]);
  assert.equal(said.content, "21 degrees in Zürich");
  const answer = await model.invoke([...messages, called, said]);
  assert.equal(answer.content, "It is 21 degrees there.");

  let whole;
  for await (const piece of await model.stream(messages))
    whole = whole === undefined ? piece : whole.concat(piece);
  assert.deepEqual(whole.tool_calls.map((call) => [call.name, call.args]),
    [["get_weather", { city: "Zürich" }]]);
}));
