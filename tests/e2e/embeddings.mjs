// Embeddings from end to end: OpenAI's and Ollama's own clients, unchanged, and the same bits
// whoever computes them: one device or three, alone or beside others, with a device that dies
// while it does.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { npm } from "./lib/clients.mjs";
import {
  eventually, gpuWorker, modelFolder, nativeWorker, noDawn, reasonToSkip, root, serve, swarmOf,
  weft,
} from "./lib/weft.mjs";

const skip = reasonToSkip("weft-tiny");
const require = createRequire(join(root, "web/package.json"));
const { default: OpenAI } = skip ? {} : await import(require.resolve("openai"));
const kColumns = 256;
// Three of them hold the model, with what conversations take; no two do.
const kThird = ["--memory", "16000000", "--threads", "1"];
const kTexts = [
  "A fox carries a lantern.",
  "The little bear was very tired and wanted to sleep, but the moon was too bright. ".repeat(12),
  "Once", "Why is the sky blue? ".repeat(30), "Mira lives in Spindle Green.",
];

let work = "";
before(() => (work = mkdtempSync(join(tmpdir(), "weft-embeddings-"))));
after(() => rmSync(work, { recursive: true, force: true }));

const packages = new Map();
function packageThatGives(pooling, ...options) {
  const key = [pooling, ...options].join(" ");
  if (!packages.has(key)) {
    const folder = join(work, `package-${packages.size}`);
    const args = ["convert", modelFolder("weft-tiny"), folder, "--embedding", pooling, ...options];
    execFileSync(weft, args, { stdio: "pipe" });
    packages.set(key, folder);
  }
  return packages.get(key);
}

// body(server) with so many stages.
async function withServer(folder, args, body, help = () => [], stages = 1) {
  const server = await serve(folder, ["--context", "512", "--threads", "1", ...args]);
  const workers = help(server);
  try {
    await eventually(async () => {
      const swarm = await swarmOf(server.origin);
      assert.equal(swarm.state, "up", `${swarm.message} ${workers.map((each) => each.output)}`);
      assert.equal(swarm.stages.length, stages);
    }, 60_000);
    await body(server, workers);
  } catch (error) {
    error.stack += `\nThe server said:\n${server.output.slice(-3000)}`;
    throw error;
  } finally {
    for (const worker of workers) worker.child.kill("SIGKILL");
    await server.stop();
  }
}

// Vectors in base64: all of their bits.
async function embed(origin, input, fields = {}) {
  const response = await fetch(`${origin}/v1/embeddings`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ input, encoding_format: "base64", ...fields }),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer.data.map(({ embedding }) => embedding);
}

function floatsOf(base64) {
  const bytes = Buffer.from(base64, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

function cosine(a, b) {
  let sum = 0;
  a.forEach((x, i) => (sum += x * b[i]));
  return sum / Math.hypot(...a) / Math.hypot(...b);
}

test("OpenAI's client, unchanged", { skip }, () =>
  withServer(packageThatGives("mean", "--matryoshka"), [], async ({ origin }) => {
    const client = new OpenAI({ baseURL: `${origin}/v1`, apiKey: "none", maxRetries: 0 });
    const [model] = (await client.models.list()).data;
    assert.deepEqual(model.capabilities, ["embedding"]);
    // It asks for base64 by itself, and decodes it.
    const answer = await client.embeddings.create({ model: "weft-tiny", input: kTexts });
    assert.deepEqual(answer.data.map(({ index }) => index), [0, 1, 2, 3, 4]);
    assert.equal(answer.model, "weft-tiny");
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens);
    for (const { embedding } of answer.data) {
      assert.equal(embedding.length, kColumns);
      assert(Math.abs(Math.hypot(...embedding) - 1) < 1e-6);
    }
    const floats = await client.embeddings.create(
      { model: "weft-tiny", input: kTexts[0], encoding_format: "float" });
    assert.deepEqual(Array.from(Float32Array.from(floats.data[0].embedding)),
      Array.from(Float32Array.from(answer.data[0].embedding)));
    const short = await client.embeddings.create(
      { model: "weft-tiny", input: kTexts[0], dimensions: 16 });
    assert.equal(short.data[0].embedding.length, 16);
    const cut = answer.data[0].embedding.slice(0, 16);
    assert(1 - cosine(short.data[0].embedding, cut) < 1e-6);
    assert(Math.abs(Math.hypot(...short.data[0].embedding) - 1) < 1e-6);
    // What two texts have in common is in their vectors.
    const [fox, , once] = answer.data.map(({ embedding }) => embedding);
    const like = await client.embeddings.create(
      { model: "weft-tiny", input: "A fox carries a lamp." });
    assert(cosine(fox, like.data[0].embedding) > cosine(once, like.data[0].embedding));

    const tooLong = client.embeddings.create({ model: "weft-tiny", input: "fox ".repeat(600) });
    await assert.rejects(tooLong, (error) => error instanceof OpenAI.BadRequestError &&
      error.code === "context_length_exceeded" && error.param === "input");
    await assert.rejects(client.chat.completions.create(
      { model: "weft-tiny", messages: [{ role: "user", content: "Hi" }] }),
    /makes embeddings and writes no text/);
    await assert.rejects(client.embeddings.create({ model: "gpt-4o", input: "a" }),
      OpenAI.NotFoundError);
  }));

test("Ollama's client, unchanged", { skip }, () =>
  withServer(packageThatGives("last"), [], async ({ origin }) => {
    const { Ollama } = await npm("ollama");
    const client = new Ollama({ host: origin });
    assert.deepEqual((await client.show({ model: "weft-tiny" })).capabilities, ["embedding"]);
    const answer = await client.embed({ model: "weft-tiny", input: kTexts.slice(0, 2) });
    assert.equal(answer.model, "weft-tiny");
    assert.equal(answer.embeddings.length, 2);
    assert(answer.prompt_eval_count > 20 && answer.total_duration > answer.load_duration);
    const older = await client.embeddings({ model: "weft-tiny", prompt: kTexts[0] });
    assert.deepEqual(older.embedding, answer.embeddings[0]);
    // What is too long is cut, unless that is not wanted.
    const long = { model: "weft-tiny", input: "fox ".repeat(600) };
    assert.equal((await client.embed(long)).prompt_eval_count, 512);
    await assert.rejects(client.embed({ ...long, truncate: false }), /takes at most 512/);
    await assert.rejects(client.embed({ model: "weft-tiny", input: "a", dimensions: 16 }),
      /weft convert --matryoshka/);
    await assert.rejects(client.generate({ model: "weft-tiny", prompt: "Hi" }),
      /makes embeddings and writes no text/);
    assert.deepEqual((await client.embed({ model: "weft-tiny", input: "" })).embeddings, []);
  }));

// As Qwen3-Embedding comes: the last row, which is made at a token that the tokenizer puts behind
// every text, and a prompt for what is looked for.
function writeSentenceTransformers(folder) {
  cpSync(modelFolder("weft-tiny"), folder, { recursive: true });
  const write = (name, value) => writeFileSync(join(folder, name), JSON.stringify(value));
  const tokenizer = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));
  const end = { id: "<|endoftext|>", ids: [0], tokens: ["<|endoftext|>"] };
  const single = [{ Sequence: { id: "A", type_id: 0 } },
    { SpecialToken: { id: end.id, type_id: 0 } }];
  tokenizer.post_processor = { type: "TemplateProcessing", single,
    pair: [...single, { Sequence: { id: "B", type_id: 1 } }],
    special_tokens: { [end.id]: end } };
  write("tokenizer.json", tokenizer);
  write("modules.json", ["Transformer", "Pooling", "Normalize"].map((name, idx) => ({
    idx, name: String(idx), path: idx === 0 ? "" : `${idx}_${name}`,
    type: `sentence_transformers.models.${name}`,
  })));
  mkdirSync(join(folder, "1_Pooling"));
  write("1_Pooling/config.json",
    { pooling_mode_cls_token: false, pooling_mode_lasttoken: true, include_prompt: true });
  write("config_sentence_transformers.json",
    { prompts: { query: "Instruct: find what answers\nQuery: ", document: "" } });
}

test("a checkpoint of sentence-transformers' form: its last token, its prompts, its ends of texts",
  { skip }, async () => {
    const source = join(work, "source");
    writeSentenceTransformers(source);
    const folder = join(work, "sentences");
    execFileSync(weft, ["convert", source, folder, "--name", "sentences"], { stdio: "pipe" });
    const idsOf = (text) => JSON.parse(execFileSync(weft,
      ["tokenize", modelFolder("weft-tiny")], { input: JSON.stringify(text) + "\n" }));
    await withServer(folder, [], async ({ origin }) => {
      const [text] = kTexts;
      const query = "Instruct: find what answers\nQuery: ";
      const [plain, asked] = await embed(origin,
        [[...idsOf(text), 0], [...idsOf(query + text), 0]]);
      assert.deepEqual(await embed(origin, text), [plain]);
      assert.deepEqual(await embed(origin, text, { prompt_name: "query" }), [asked]);
      assert.deepEqual(await embed(origin, text, { prompt_name: "document" }), [plain]);
      assert.notEqual(plain, asked);
      // What is too long keeps the token behind it.
      const long = "fox ".repeat(600);
      const [cut] = await embed(origin, [[...idsOf(long).slice(0, 511), 0]]);
      const response = await fetch(`${origin}/api/embed`,
        { method: "POST", body: JSON.stringify({ model: "sentences", input: long }) });
      const { embeddings: [vector], prompt_eval_count: count } = await response.json();
      assert.equal(count, 512);
      assert.deepEqual(Array.from(Float32Array.from(vector)), Array.from(floatsOf(cut)));
    });
  });

test("a package that writes text says what would make embeddings", { skip }, async () => {
  const folder = join(work, "text");
  execFileSync(weft, ["convert", modelFolder("weft-tiny"), folder], { stdio: "pipe" });
  await withServer(folder, [], async ({ origin }) => {
    for (const path of ["/v1/embeddings", "/api/embed", "/api/embeddings"]) {
      const body = JSON.stringify({ model: "weft-tiny", [path === "/api/embeddings" ? "prompt"
        : "input"]: "a" });
      const response = await fetch(`${origin}${path}`, { method: "POST", body });
      assert.equal(response.status, 400);
      assert.match(await response.text(),
        /'weft-tiny' writes text and makes no embeddings.*weft convert --embedding/);
    }
  });
});

for (const pooling of ["mean", "last"]) {
  test(`${pooling}: the same bits in any company and over any number of devices`,
    { skip, timeout: 120_000 }, async () => {
      const folder = packageThatGives(pooling);
      let alone = [];
      await withServer(folder, [], async ({ origin }) => {
        for (const text of kTexts) alone.push(...(await embed(origin, text)));
        assert.deepEqual(await embed(origin, kTexts), alone, "together");
        assert.deepEqual(await embed(origin, [...kTexts].reverse()), [...alone].reverse());
        const many = await Promise.all(Array.from({ length: 6 }, () => embed(origin, kTexts)));
        for (const each of many) assert.deepEqual(each, alone, "beside others");
      });
      const three = ({ origin }) => [0, 1, 2].map(() => nativeWorker(origin, kThird));
      await withServer(folder, ["--no-worker"], async (server, workers) => {
        assert.deepEqual(await embed(server.origin, kTexts), alone, "three devices");
        // One dies while it computes, and another one takes over.
        const list = Array.from({ length: 40 }, (_, i) => kTexts[i % kTexts.length]);
        const asked = embed(server.origin, list);
        await eventually(async () =>
          assert((await swarmOf(server.origin)).active_requests > 0, "it is computed"));
        workers[1].child.kill("SIGKILL");
        await eventually(async () => {
          const swarm = await swarmOf(server.origin);
          assert(swarm.state !== "up" && swarm.active_requests > 0, swarm.state);
        });
        workers.push(nativeWorker(server.origin, kThird));
        const given = await asked;
        list.forEach((_, i) => assert.equal(given[i], alone[i % kTexts.length], `input ${i}`));
      }, three, 3);
    });
}

test("who goes away before the answer has its inputs cancelled", { skip }, () =>
  withServer(packageThatGives("mean"), [], async ({ origin }) => {
    const stop = new AbortController();
    const asked = fetch(`${origin}/v1/embeddings`, {
      method: "POST", signal: stop.signal,
      body: JSON.stringify({ input: Array.from({ length: 400 }, () => kTexts[1]) }),
    });
    await eventually(async () =>
      assert((await swarmOf(origin)).active_requests > 0, "it is computed"));
    stop.abort();
    await assert.rejects(asked);
    await eventually(async () => {
      const swarm = await swarmOf(origin);
      assert.deepEqual([swarm.active_requests, swarm.queued_requests], [0, 0]);
    });
  }));

test("a headless worker's vectors are those of a native one but for rounding",
  { skip: skip || noDawn(), timeout: 240_000 }, async () => {
    // A software adapter takes a second for five rows; more than 8 go through its head by turns.
    const moon = "The bear looked at the moon, and the moon looked at the bear.";
    const texts = [kTexts[0], "Once", moon];
    const native = { mean: [], last: [] };
    for (const pooling of ["mean", "last"]) {
      const folder = packageThatGives(pooling);
      await withServer(folder, [], async ({ origin }) =>
        (native[pooling] = await embed(origin, texts)));
      const gpu = ({ origin }) => [gpuWorker(origin,
        ["--cache", join(work, pooling), "--memory", "400MiB"])];
      await withServer(folder, ["--no-worker"], async ({ origin }) => {
        const given = await embed(origin, texts);
        given.forEach((vector, i) => {
          const far = 1 - cosine(floatsOf(vector), floatsOf(native[pooling][i]));
          assert(far < 1e-4, `${pooling} ${i}: ${far}`);
        });
        assert.deepEqual(await embed(origin, texts[0]), [given[0]], "alone");
      }, gpu);
    }
  });
