// Structured output from a model: every answer that comes to its end is valid, as a validator says
// that is not ours, and the same again, whole and as a stream.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { SchemaMaker } from "../../tools/grammar_oracle/schemas.mjs";
import { eventually, nativeWorker, packageOf, reasonToSkip, serve, swarmOf }
  from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
// Five hundred and more by hand: WEFT_SCHEMAS=500.
const kSchemas = Number(process.env.WEFT_SCHEMAS ?? 40);

async function post(origin, fields) {
  const response = await fetch(`${origin}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      model: "weft-tiny", max_tokens: 200, temperature: 1,
      messages: [{ role: "user", content: "Tell me a story about a fox." }], ...fields,
    }),
  });
  return { status: response.status, text: await response.text() };
}

async function answer(origin, fields) {
  const { status, text } = await post(origin, fields);
  assert.equal(status, 200, text);
  const { choices: [{ message, finish_reason: reason }] } = JSON.parse(text);
  return { content: message.content, reason };
}

async function withServer(body) {
  const server = await serve(packageOf("weft-tiny"), ["--threads", "1"]);
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
    await body(server);
  } finally {
    await server.stop();
  }
}

// As many devices as there are names, none of which holds the model alone.
async function withWorkers(names, memory, body) {
  const server = await serve(packageOf("weft-tiny"), ["--no-worker"]);
  const caches = mkdtempSync(join(tmpdir(), "weft-forms-"));
  const workers = names.map((name) => nativeWorker(server.origin, ["--memory", memory,
    "--threads", "1", "--name", name, "--cache", join(caches, name)]));
  try {
    await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"), 60_000);
    await body(server);
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
    await server.stop();
    rmSync(caches, { recursive: true, force: true });
  }
}

// Tokens of all answers, and those of them that nobody drew.
async function countsOf(origin) {
  const metrics = await (await fetch(`${origin}/metrics`)).text();
  const count = (name) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(metrics)[1]);
  return { tokens: count("weft_generated_tokens_total"),
    forced: count("weft_forced_tokens_total") };
}

const schemaFormat = (schema) =>
  ({ type: "json_schema", json_schema: { name: "answer", strict: true, schema } });

test(`${kSchemas} schemas: answers are valid`, { skip }, () => withServer(async ({ origin }) => {
  const maker = new SchemaMaker(7);
  // A small model goes on in strings that have no limit; those answers are cut off.
  let ended = 0;
  for (let seed = 0; seed < kSchemas; ++seed) {
    const { schema } = maker.schema();
    const isValid = maker.validator(schema);
    const fields = { response_format: schemaFormat(schema), seed, temperature: (seed % 4) / 2 };
    const { content, reason } = await answer(origin, fields);
    assert(["stop", "length"].includes(reason));
    if (reason === "length") continue;
    ++ended;
    assert(isValid(JSON.parse(content)), `${content} of ${JSON.stringify(schema)}`);
  }
  assert(ended > kSchemas / 3, `${ended} answers ended before their limit`);
}));

test("an answer is the same again, whole and as a stream", { skip }, () =>
  withServer(async ({ origin }) => {
    const fields = { seed: 3, response_format: schemaFormat({ properties: {
      name: { type: "string", maxLength: 12 }, legs: { type: "integer", minimum: 2, maximum: 4 },
    }, required: ["name", "legs"] }) };
    const { content } = await answer(origin, fields);
    assert.deepEqual(Object.keys(JSON.parse(content)), ["name", "legs"]);
    assert.equal((await answer(origin, fields)).content, content);
    const { text } = await post(origin, { ...fields, stream: true });
    const events = text.split("\n\n").filter((event) => event.startsWith("data: {"))
      .map((event) => JSON.parse(event.slice(6)));
    const streamed = events.map((event) => event.choices[0].delta.content ?? "").join("");
    assert.equal(streamed, content);
    assert.equal(events.at(-1).choices[0].finish_reason, "stop");
  }));

test("choices, expressions, grammars and objects; penalties and logprobs", { skip }, () =>
  withServer(async ({ origin }) => {
    const choice = ["a fox", "an owl", "été"];
    for (let seed = 0; seed < 5; ++seed) {
      const chosen = await answer(origin, { seed, structured_outputs: { choice } });
      assert(choice.includes(chosen.content), chosen.content);
      assert.equal(chosen.reason, "stop");
    }
    const regex = await answer(origin, {
      structured_outputs: { regex: "[A-Z][a-z]{1,9}: [0-9]{3}" },
      temperature: 0, frequency_penalty: 1, logprobs: true,
    });
    assert.match(regex.content, /^[A-Z][a-z]{1,9}: [0-9]{3}$/);
    const gbnf = await answer(origin, { grammar: 'root ::= ("red" | "blue"){3} "."' });
    assert.match(gbnf.content, /^(red|blue){3}\.$/);
    const object = await answer(origin, { response_format: { type: "json_object" }, seed: 1 });
    assert.match(object.content, /^\{/);
  }));

// With penalties at temperature 0 all logits of each step come from the second device.
test("a model that is split over devices answers alike", { skip }, () =>
  withWorkers(["first", "second"], "64MiB", async (server) => {
    const schema = { properties: {
      animal: { enum: ["fox", "owl"] }, story: { type: "string", maxLength: 40 },
    }, required: ["animal", "story"] };
    for (const fields of [{ temperature: 0, frequency_penalty: 0.5 }, { temperature: 1.5 },
      { temperature: 0.5, presence_penalty: 0.2, logprobs: true }]) {
      const { content } =
        await answer(server.origin, { ...fields, seed: 4, response_format: schemaFormat(schema) });
      const { animal, story } = JSON.parse(content);
      assert(["fox", "owl"].includes(animal) && [...story].length <= 40, content);
    }
  }));

// Keys and what else a schema leaves no choice of go through the devices together, as prompts do.
test("an answer takes fewer laps than it has tokens", { skip }, (t) =>
  withWorkers(["first", "second", "third"], "44MiB", async (server) => {
    const { stages } = await swarmOf(server.origin);
    assert.equal(stages.length, 3);
    const names = ["a fox was hungry", "the house was old", "an owl came by", "it rained all day",
      "the river was wide", "nobody slept at night", "there was bread", "they went home"]
      .flatMap((name) => [name, `${name} then`, `${name} at last`]);
    const properties = Object.fromEntries(names.map((name) => [name, { type: "boolean" }]));
    const schema = { properties, required: names, additionalProperties: false };
    const before = await countsOf(server.origin);
    const { content } = await answer(server.origin,
      { temperature: 1, seed: 1, max_tokens: 600, response_format: schemaFormat(schema) });
    assert.deepEqual(Object.keys(JSON.parse(content)), names);
    const { tokens, forced } = await countsOf(server.origin);
    const laps = tokens - before.tokens - (forced - before.forced);
    t.diagnostic(`${laps} laps of ${tokens - before.tokens} tokens`);
    assert(laps < 0.6 * (tokens - before.tokens), `${laps} laps of ${tokens - before.tokens}`);
  }));

test("what cannot be followed is a 400 that names the field", { skip }, () =>
  withServer(async ({ origin }) => {
    for (const [param, fields, message] of [
      ["response_format.json_schema.schema", { response_format: schemaFormat({ not: {} }) },
        /'not' at #\/not is not supported/],
      ["structured_outputs.regex", { structured_outputs: { regex: "a(" } }, /not closed/],
      ["grammar", { grammar: "root ::= root" }, /left recursion|no text/],
      ["response_format", { response_format: { type: "xml" } }, /expected/],
    ]) {
      const { status, text } = await post(origin, fields);
      assert.equal(status, 400);
      const { error } = JSON.parse(text);
      assert.equal(error.param, param);
      assert.match(error.message, message);
    }
  }));
