// What public bug reports of similar servers say that clients and proxies send, to a server of
// ours: HTTP in the forms that RFCs allow, and fields that would change the answer.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";

import { eventually, packageOf, root, serve, swarmOf, weft } from "../e2e/lib/weft.mjs";

const kOrigin = "https://app.example";
const kStory = [{ role: "user", content: "Tell me a story about a fox." }];

let server;
let port;
before(async () => {
  server = await serve(packageOf("weft-tiny"), [
    "--threads", "1", "--context", "256", "--sessions", "2", "--journal", "off",
    "--allow-origin", `${kOrigin.toUpperCase()}/`]);
  port = Number(new URL(server.origin).port);
  await eventually(async () => assert.equal((await swarmOf(server.origin)).state, "up"));
});
after(() => server.stop());

// All that comes for these bytes until the server closes or says nothing for a second.
function raw(bytes, to = port) {
  return new Promise((resolve, reject) => {
    const socket = connect(to, "127.0.0.1", () => socket.write(bytes));
    let text = "";
    let isClosed = false;
    socket.setEncoding("latin1");
    socket.setTimeout(1000, () => socket.destroy());
    socket.on("data", (piece) => (text += piece));
    socket.on("end", () => (isClosed = true));
    socket.on("error", reject);
    socket.on("close", () => resolve({ text, isClosed, status: Number(text.slice(9, 12)) }));
  });
}

function lines(...all) {
  return [...all, "", ""].join("\r\n");
}

function chat(fields, { to = port, headers = {}, body } = {}) {
  const text = body ?? JSON.stringify(
    { model: "weft-tiny", messages: kStory, max_tokens: 12, temperature: 0, ...fields });
  return new Promise((resolve, reject) => {
    const sent = httpRequest({ port: to, method: "POST", path: "/v1/chat/completions",
      headers: { "Content-Type": "application/json", ...headers } }, (reply) => {
      const pieces = [];
      reply.on("data", (piece) => pieces.push(piece));
      reply.on("end", () => {
        const bytes = Buffer.concat(pieces);
        const isJson = reply.headers["content-type"] === "application/json";
        resolve({ status: reply.statusCode, headers: reply.headers, bytes,
          json: isJson ? JSON.parse(bytes.toString()) : null });
      });
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

// As Python's requests reads a stream of text: in the charset that is told, else in Latin-1, by
// lines that end wherever str.splitlines ends them.
function deltasAsPythonReads({ headers, bytes }) {
  const charset = /charset="?([^";]+)/.exec(headers["content-type"])?.[1] ?? "latin1";
  const text = new TextDecoder(charset).decode(bytes);
  return text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice("data: ".length)).choices[0].delta.content ?? "").join("");
}

// A server whose greedy answer begins with these bytes: their tokens take the places of others.
async function withAnswer(exchanged, body) {
  const folder = mkdtempSync(join(tmpdir(), "weft-reported-"));
  const source = join(folder, "weft-tiny");
  cpSync(join(root, "models/weft-tiny"), source, { recursive: true });
  const tokenizer = JSON.parse(readFileSync(join(source, "tokenizer.json"), "utf8"));
  const { vocab } = tokenizer.model;
  for (const [a, b] of exchanged) [vocab[a], vocab[b]] = [vocab[b], vocab[a]];
  writeFileSync(join(source, "tokenizer.json"), JSON.stringify(tokenizer));
  const made = join(folder, "package", "weft-tiny");
  execFileSync(weft, ["convert", source, made], { stdio: "pipe" });
  const own = await serve(made, ["--threads", "1", "--context", "256", "--journal", "off"]);
  try {
    await eventually(async () => assert.equal((await swarmOf(own.origin)).state, "up"));
    await body(Number(new URL(own.origin).port));
  } finally {
    await own.stop();
    rmSync(folder, { recursive: true });
  }
}

test("streams say their charset: characters of four bytes reach old clients", () =>
  withAnswer([["Long", "\u00f0"], ["\u0120ago", "\u0141"], [",", "\u00a6"], ["\u0120in", "\u012c"]],
    async (to) => {
      const reply = await chat({ stream: true, max_tokens: 4 }, { to });
      assert.equal(reply.headers["content-type"], "text/event-stream; charset=utf-8");
      assert.equal(deltasAsPythonReads(reply), "\u{1F98A}");
    }));

test("streams say their charset: a byte 0x85 cuts no event", () =>
  withAnswer([["Long", "\u00e2"], ["\u0120ago", "\u013e"], [",", "\u0127"]], async (to) => {
    const reply = await chat({ stream: true, max_tokens: 3 }, { to });
    assert.equal(deltasAsPythonReads(reply), "\u2705");
  }));

test("HTTP/1.0 is told that its connection stays, or that it closes", async () => {
  const head = ["GET /v1/models HTTP/1.0", `Host: 127.0.0.1:${port}`];
  const kept = await raw(lines(...head, "Connection: Keep-Alive"));
  assert.match(kept.text, /\r\nConnection: keep-alive\r\n/i);
  assert.equal(kept.isClosed, false);
  const closed = await raw(lines(...head));
  assert.match(closed.text, /\r\nConnection: close\r\n/i);
  assert.equal(closed.isClosed, true);
  const health = await raw(lines("GET /healthz HTTP/1.0"));
  assert.equal(health.status, 200);
  assert.equal((await raw(lines("OPTIONS / HTTP/1.0"))).status, 204);
});

test("targets are whole addresses and the server itself, too", async () => {
  const whole = await raw(lines(`GET http://127.0.0.1:${port}/v1/models HTTP/1.1`, "Host: other",
    "Proxy-Connection: Keep-Alive", "Connection: close"));
  assert.equal(whole.status, 200);
  const other = await raw(lines("GET http://other/v1/models HTTP/1.1",
    `Host: 127.0.0.1:${port}`, "Connection: close"));
  assert.equal(other.status, 421);
  const star = await raw(lines("OPTIONS * HTTP/1.1", `Host: 127.0.0.1:${port}`,
    "Connection: close"));
  assert.equal(star.status, 204);
});

test("answers that come before a request is whole can be read by pages", async () => {
  const head = [`Host: 127.0.0.1:${port}`, `Origin: ${kOrigin}`];
  const cases = {
    413: lines("POST /v1/chat/completions HTTP/1.1", ...head, "Content-Length: 3000000"),
    431: lines("GET /v1/models HTTP/1.1", `X: ${"a".repeat(9000)}`, ...head),
    400: lines("GET /v1/models HTTP/1.1", ...head, "no field"),
    505: lines("GET /v1/models HTTP/2.0", ...head),
  };
  for (const [status, bytes] of Object.entries(cases)) {
    const { text } = await raw(bytes);
    assert.equal(text.slice(9, 12), status);
    assert.match(text, /\r\nAccess-Control-Allow-Origin: https:\/\/app\.example\r\n/);
    assert.match(text, /\r\nVary: Origin\r\n/);
  }
});

test("a body in an encoding or a charset that nobody undoes is 415", async () => {
  const body = JSON.stringify({ model: "weft-tiny", max_tokens: 2, messages: kStory });
  const zipped = await chat({}, { headers: { "Content-Encoding": "gzip" }, body: gzipSync(body) });
  assert.equal(zipped.status, 415);
  assert.equal(zipped.headers["accept-encoding"], "identity");
  const wide = await chat({}, { body: Buffer.from(body, "utf16le"),
    headers: { "Content-Type": "application/json; charset=utf-16" } });
  assert.equal(wide.status, 415);
  const plain = await chat({}, { body, headers: { "Content-Encoding": "identity",
    "Content-Type": "application/json; charset=\"UTF-8\"" } });
  assert.equal(plain.status, 200);
});

test("the same text has the same answer, escaped and not", async () => {
  const text = JSON.stringify(
    { model: "weft-tiny", messages: [{ role: "user", content: "\u7ec7".repeat(180_000) }] });
  const escaped = text.replace(/[\u0080-\uffff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const [plain, long] = [await chat({}, { body: text }), await chat({}, { body: escaped })];
  assert.equal(plain.json.error.code, "context_length_exceeded");
  assert.deepEqual(long.json, plain.json);
});

test("every answer has its date", async () => {
  for (const target of ["/v1/models", "/nothing", "/healthz"]) {
    const { text } = await raw(lines(`GET ${target} HTTP/1.1`, `Host: 127.0.0.1:${port}`,
      "Connection: close"));
    const date = /\r\nDate: ([^\r]+)\r\n/.exec(text)[1];
    assert.match(date, /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/);
    assert.ok(Math.abs(Date.parse(date) - Date.now()) < 60_000, date);
  }
});

test("names and origins count in any case", async () => {
  for (const host of [`LOCALHOST:${port}`, `localhost.:${port}`, `LocalHost:0${port}`]) {
    const { status } = await raw(lines("GET /v1/models HTTP/1.1", `Host: ${host}`,
      `Origin: HTTP://LOCALHOST:${port}`, "Connection: close"));
    assert.equal(status, 200, host);
  }
});

test("fields that would change the answer are refused by name", async () => {
  for (const [name, value] of Object.entries({
    json_schema: { type: "object" },
    bad_words: [" fox"], add_generation_prompt: false, echo: true,
    include_stop_str_in_output: true, no_such_field: 1,
  })) {
    const { status, json } = await chat({ [name]: value });
    assert.equal(status, 400, name);
    assert.equal(json.error.param, name);
  }
});

// What OpenAI's types have, docs/api.md says something about.
test("every field of OpenAI's client has its row", () => {
  const web = createRequire(join(root, "web/package.json"));
  const types = readFileSync(join(web.resolve("openai"), "..",
    "resources/chat/completions/completions.d.ts"), "utf8");
  const [, base] = /interface ChatCompletionCreateParamsBase \{\n(.*?)\n\}/s.exec(types);
  const names = [...base.matchAll(/^ {4}([a-z_]+)\??:/gm)].map(([, name]) => name);
  assert.ok(names.length > 30, `${names.length} fields`);
  const document = readFileSync(join(root, "docs/api.md"), "utf8");
  for (const name of names) assert.match(document, new RegExp(`^\\| \`${name}\` \\| OpenAI`, "m"));
});

test("logprobs end where the text ends", async () => {
  const fields = { max_tokens: 40, logprobs: true, stop: ["quiet forest"] };
  const { choices: [choice] } = (await chat(fields)).json;
  const told = choice.logprobs.content.map((entry) => entry.token);
  assert.ok(choice.message.content.length > 0);
  assert.deepEqual(told.slice(-1), [" quiet"]);
  assert.ok(told.join("").startsWith(choice.message.content));
  const { bytes } = await chat({ ...fields, stream: true });
  const chunks = bytes.toString().split("\n").filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice("data: ".length)).choices[0]);
  const streamed = chunks.flatMap((chunk) => chunk.logprobs?.content ?? []);
  assert.deepEqual(streamed, choice.logprobs.content);
  assert.equal(chunks.map((chunk) => chunk.delta.content ?? "").join(""), choice.message.content);
});
