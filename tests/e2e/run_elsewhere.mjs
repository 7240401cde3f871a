// `weft run` with several servers: where one is lost in the middle of an answer, the next one is
// asked for the rest, with the same key and the number of the last event.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";

import { weft } from "./lib/weft.mjs";

const skip = existsSync(weft) ? false : `there is no ${weft}`;
const kWords = ["The", " cat", " sat", " on", " the mat."];
const eventOf = (index) => {
  const delta = { content: kWords[index] };
  return `id: ${index + 1}\ndata: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
};

// Answers from behind the last event; `end` takes the response and what it would write.
async function server(end, others = []) {
  const asked = [];
  const http = createServer((request, response) => {
    if (request.url === "/v1/models")
      return response.end(JSON.stringify({ data: [{ id: "tiny" }] }));
    if (request.url === "/api/cluster")
      return others.length > 0 ? response.end(JSON.stringify({ servers: others })) :
        response.writeHead(404).end();
    asked.push(request.headers);
    response.setHeader("Content-Type", "text/event-stream");
    const from = Number(request.headers["last-event-id"] ?? 0);
    return end(response, kWords.map((_, index) => eventOf(index)).slice(from));
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${http.address().port}`;
  return { asked, url, close: () => http.closeAllConnections() || http.close() };
}

const whole = (response, events) => response.end(`${events.join("")}data: [DONE]\n\n`);
const cutBehind = (count) => (response, events) => {
  response.write(events.slice(0, count).join(""));
  setTimeout(() => response.destroy(), 50);
};
const stopping = (response, events) => {
  response.write(events.slice(0, 2).join(""));
  const error = { message: "The server is stopping.", code: "unavailable" };
  response.end(`data: ${JSON.stringify({ error })}\n\ndata: [DONE]\n\n`);
};

async function run(...args) {
  const child = spawn(weft, ["run", ...args, "--prompt", "What sat?"]);
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8");
    child[name].on("data", (text) => (said[name] += text));
  }
  said.status = await new Promise((resolve) => child.on("close", resolve));
  return said;
}

async function movesFrom(first, lastId) {
  const b = await server(whole);
  const a = await server(first);
  try {
    const { status, stdout, stderr } = await run(a.url, b.url);
    assert.equal(status, 0, stderr);
    assert.equal(stdout.trim(), "The cat sat on the mat.", "each word once");
    assert.match(stderr, /\(moving to another server\)/);
    assert.ok(a.asked.length > 0, "once more where nothing had come of a kept connection");
    assert.equal(b.asked.length, 1);
    assert.match(a.asked[0]["idempotency-key"], /^[0-9a-f]{32}$/);
    assert.equal(b.asked[0]["idempotency-key"], a.asked[0]["idempotency-key"]);
    assert.equal(a.asked[0]["last-event-id"], undefined);
    assert.equal(b.asked[0]["last-event-id"], lastId);
  } finally {
    for (const each of [a, b]) each.close();
  }
}

test("an answer that was cut goes on at the next server", { skip },
  async () => await movesFrom(cutBehind(3), "3"));

test("so does one whose server is lost before its first word", { skip },
  async () => await movesFrom((response) => response.destroy(), undefined));

test("and one whose server says that it stops", { skip },
  async () => await movesFrom(stopping, "2"));

test("a server of a cluster tells where the others are", { skip }, async () => {
  const b = await server(whole);
  const a = await server(cutBehind(1), [{ name: "b", url: b.url, fingerprint: "" }]);
  try {
    const { status, stdout, stderr } = await run(a.url);
    assert.equal(status, 0, stderr);
    assert.equal(stdout.trim(), "The cat sat on the mat.");
  } finally {
    for (const each of [a, b]) each.close();
  }
});

test("with one server an answer that is cut is an error", { skip }, async () => {
  const a = await server(cutBehind(3));
  try {
    const { status, stdout } = await run(a.url);
    assert.notEqual(status, 0);
    assert.equal(stdout.trim(), "The cat sat");
  } finally {
    a.close();
  }
});

test("a model among several servers is refused", { skip }, async () => {
  const { status, stderr } = await run("http://127.0.0.1:9", "qwen3-0.6b");
  assert.notEqual(status, 0);
  assert.match(stderr, /'qwen3-0.6b' is no address of a server/);
});
